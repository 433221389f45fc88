//! Machines and claims together: random machines in random versions, two sidecars with stale knowledge of the resource and of the
//! law, lost replies, late commits, crashes and leases that end, compared with [`model::Model`].

use proptest::prelude::*;

mod model;
mod sketch;
mod wishes;
mod world;

use self::sketch::sketches;
use self::wishes::steps;
use self::world::World;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn machines_and_claims_together_say_what_one_request_after_another_would_be_told(
        sketch in sketches(),
        steps in prop::collection::vec(steps(), 1..40),
    ) {
        // What lint refuses is no machine.
        if let Some(mut world) = World::under(sketch) {
            for step in &steps {
                world.step(step);
            }
            world.finish();
        }
    }
}
