use std::collections::BTreeSet;

use super::*;

#[test]
fn watches_that_are_cut_at_one_moment_do_not_come_back_at_one() {
    const WATCHES: usize = 64;
    let back = (0..WATCHES).map(|_| pauses().take(3).sum::<Duration>());
    let moments: BTreeSet<Duration> = back.collect();
    assert!(moments.len() > WATCHES / 2, "{moments:?}");
}

#[test]
fn a_watch_that_is_refused_for_who_asks_sees_to_a_login_and_any_other_does_not() {
    for reason in [
        "etcdserver: permission denied",
        "rpc error: code = PermissionDenied desc = etcdserver: permission denied",
        "etcdserver: invalid auth token",
        "etcdserver: user name is empty",
        "etcdserver: revision of auth store is old",
    ] {
        assert!(is_about_who_asks(reason), "{reason}");
    }
    for reason in ["", "etcdserver: no leader", "watch closed"] {
        assert!(!is_about_who_asks(reason), "{reason}");
    }
}
