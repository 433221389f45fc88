//! Under which leader of etcd a lease was kept alive.
//!
//! A keepalive goes to the leader alone, which asks nobody: one that others have replaced, and that has not noticed it yet, goes on
//! answering, for leases that end by its successor's count. But a reply names a term, that of what the member had applied when
//! it answered, and a linearizable one that is asked for later is of the leader that the majority follows. So a keepalive counts once
//! a linearizable reply that was asked for after its answer is of no later term: then its leader still led when that was asked
//! for, and whoever leads next counts each lease anew from later.

use etcd_client::ResponseHeader;
use etcd_client::proto::PbResponseHeader;

/// A term of etcd's leaders, as a reply names it. Each election makes a larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term(u64);

impl Term {
    pub(super) fn of(header: Option<&ResponseHeader>) -> Self {
        Self(header.map_or(0, ResponseHeader::raft_term))
    }

    pub(super) fn in_header(header: &PbResponseHeader) -> Self {
        Self(header.raft_term)
    }

    /// What is known once a linearizable reply has told of a term: the latest, whichever reply comes first. `asked`: what was
    /// known when that reply was asked for. Only an etcd that began anew, or a member that did, tells less than that: then what
    /// was known says nothing of it.
    pub(super) fn once_told(self, asked: Self, told: Self) -> Self {
        if told >= self || asked == self {
            told
        } else {
            self
        }
    }
}

/// A lease that was kept alive, as one member says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptAlive {
    /// Its TTL, from before the keepalive was asked for at the earliest.
    pub seconds: u32,
    pub(super) term: Term,
}

impl KeptAlive {
    /// Whether this counts, when the last linearizable reply was of this term.
    pub(super) fn counts_in(&self, last: Term) -> bool {
        last <= self.term
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keepalive_counts_unless_a_later_leader_is_known() {
        let kept = |term| KeptAlive {
            seconds: 60,
            term: Term(term),
        };
        // What its answer names may be too early, never too late: the leader's own term is this one or a later one.
        for (term, last, counts) in [(7, 7, true), (7, 8, false), (7, 6, true), (0, 0, true)] {
            let told = kept(term).counts_in(Term(last));
            assert_eq!(told, counts, "{term} and then {last}");
        }
    }

    #[test]
    fn the_latest_term_stays_known_until_a_reply_asked_for_since_tells_less() {
        let known = Term(7);
        assert_eq!(known.once_told(Term(6), Term(8)), Term(8));
        // It was under way when the election came.
        assert_eq!(known.once_told(Term(6), Term(6)), known);
        assert_eq!(known.once_told(known, known), known);
        // A store that was restored, or set up anew, counts its elections from the beginning.
        assert_eq!(known.once_told(known, Term(2)), Term(2));
    }
}
