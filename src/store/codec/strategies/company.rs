//! Which other resources a round holds.

use proptest::collection::vec;
use proptest::prelude::*;

use super::names;
use crate::domain::ids::{Kind, ResourceId};
use crate::domain::together::{Company, TOGETHER_MAX};

fn resources() -> impl Strategy<Value = ResourceId> {
    (names(), "\\PC{1,12}")
        .prop_map(|(kind, id)| ResourceId::new(Kind::parse(&kind).unwrap(), &id).unwrap())
}

pub(super) fn companies() -> impl Strategy<Value = Company> {
    prop_oneof![
        4 => Just(Company::Alone),
        1 => vec(resources(), 1..TOGETHER_MAX).prop_map(Company::Leads),
        1 => resources().prop_map(Company::Follows),
    ]
}
