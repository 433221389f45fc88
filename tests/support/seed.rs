//! Random sequences that can be played once more.

/// Names the seed of another run, a number, to play its sequences once more.
pub(crate) const SEED: &str = "TEST_SEED";

/// The seed that is named, else one that was never used. Says how to play the same once more.
pub(crate) fn seed() -> u64 {
    let named = std::env::var(SEED).ok();
    let named = named.map(|seed| seed.parse().expect("TEST_SEED is a number below 2^64"));
    let seed = named.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
    println!("to play these once more: {SEED}={seed}");
    seed
}

/// Random numbers from a seed (splitmix64).
#[derive(Debug)]
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
