//! Several resources held by one round: all or none, by one lease, under one token.
//!
//! The round is named by the *lead*, the first of them in order. Its record lists the others, so that the id alone is enough to
//! renew and to release; theirs name the lead. All reservation keys of the round are made in one commit, hang on one lease and
//! are deleted in one commit or by the lease's end, so what is true of one of them is true of all.

use std::fmt;
use std::sync::Arc;

use super::ids::{Holder, RequestId, ResourceId};
use super::invalid::Invalid;
use super::request::Ttl;

/// Most resources of one round.
pub const TOGETHER_MAX: usize = 16;

/// The resources of one round: two or more, each once, in order.
#[derive(Clone, PartialEq, Eq)]
pub struct Together(Arc<[ResourceId]>);

impl Together {
    /// `named` and those `also` asked for, in whatever order.
    pub fn new(named: ResourceId, also: Vec<ResourceId>) -> Result<Self, Invalid> {
        if also.is_empty() {
            return Err(Invalid::new("names no resource"));
        }
        if also.len() >= TOGETHER_MAX {
            return Err(Invalid::new(format!(
                "has {} resources; the limit is {} beside `resource`",
                also.len(),
                TOGETHER_MAX - 1
            )));
        }
        let mut all = vec![named];
        for (index, other) in also.into_iter().enumerate() {
            if all.contains(&other) {
                return Err(Invalid::new(format!(
                    "names a resource a second time, at index {index}; each is named once"
                )));
            }
            all.push(other);
        }
        all.sort();
        Ok(Self(all.into()))
    }

    /// All of them, in order.
    pub fn all(&self) -> &[ResourceId] {
        &self.0
    }

    /// The same, to be kept.
    pub fn shared(&self) -> Arc<[ResourceId]> {
        Arc::clone(&self.0)
    }

    /// The first of them, which names the round.
    pub fn lead(&self) -> &ResourceId {
        self.0.first().expect("they are two or more")
    }

    /// What the record of one of them says of the others.
    pub fn company_of(&self, resource: &ResourceId) -> Company {
        if self.lead() == resource {
            Company::Leads(self.0.iter().skip(1).cloned().collect())
        } else {
            Company::Follows(self.lead().clone())
        }
    }
}

impl fmt::Debug for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&*self.0).finish()
    }
}

/// Which other resources a round holds, as the record of one of them says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Company {
    /// None.
    #[default]
    Alone,
    /// These, in order. This one is before them all, and names the round.
    Leads(Vec<ResourceId>),
    /// This one, which names the round, and those that its record lists.
    Follows(ResourceId),
}

impl Company {
    /// The others, as far as the record itself tells them.
    pub fn told(&self) -> Vec<ResourceId> {
        match self {
            Self::Alone => Vec::new(),
            Self::Leads(others) => others.clone(),
            Self::Follows(lead) => vec![lead.clone()],
        }
    }
}

/// Asks for a reservation of several resources.
#[derive(Clone, Debug)]
pub struct ReserveTogether {
    /// What to hold.
    pub together: Together,
    /// Which attempt of the caller this is.
    pub request: RequestId,
    /// For how long.
    pub ttl: Ttl,
    /// For people.
    pub holder: Option<Holder>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Kind;

    fn resource(kind: &str, id: usize) -> ResourceId {
        ResourceId::new(Kind::parse(kind).unwrap(), &id.to_string()).unwrap()
    }

    #[test]
    fn the_order_in_which_resources_are_named_is_of_no_consequence() {
        let (seat, room) = (resource("seat", 1), resource("room", 9));
        let one = Together::new(seat.clone(), vec![room.clone()]).unwrap();
        let other = Together::new(room.clone(), vec![seat.clone()]).unwrap();
        assert_eq!(one, other);
        assert_eq!(one.all(), [room.clone(), seat.clone()]);
        assert_eq!(one.company_of(&room), Company::Leads(vec![seat.clone()]));
        assert_eq!(one.company_of(&seat), Company::Follows(room));
    }

    #[test]
    fn sixteen_resources_are_one_round_and_seventeen_are_refused_with_the_limit() {
        let others = |last| (2..=last).map(|id| resource("seat", id)).collect();
        let most = Together::new(resource("seat", 1), others(16)).unwrap();
        assert_eq!(most.all().len(), TOGETHER_MAX);
        let error = Together::new(resource("seat", 1), others(17)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "has 16 resources; the limit is 15 beside `resource`"
        );
    }

    #[test]
    fn a_resource_named_twice_is_refused_with_its_place() {
        for (also, index) in [(vec![1], 0), (vec![2, 2], 1), (vec![3, 2, 1], 2)] {
            let also: Vec<_> = also.into_iter().map(|id| resource("seat", id)).collect();
            let error = Together::new(resource("seat", 1), also).unwrap_err();
            let text = format!("a second time, at index {index}");
            assert!(error.to_string().contains(&text), "{error}");
        }
    }
}
