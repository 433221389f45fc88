//! Which etcd the members run, and what is known to be wrong with it.
//!
//! Nothing that works is refused: whoever runs an old etcd is told by name what it risks, and goes on.

use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;

use super::link::Store;
use super::session::Member;

/// How long a member may take to say what it runs.
const SAY_LIMIT: Duration = Duration::from_secs(1);

/// A version of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Reads `3.6.16`, also with more behind it, as `3.7.0-rc.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| text.parse().ok();
        let mut parts = text.split('-').next()?.split('.');
        let version = Self::new(
            number(parts.next()?)?,
            number(parts.next()?)?,
            number(parts.next()?)?,
        );
        parts.next().is_none().then_some(version)
    }

    /// What is known to be wrong with it, the worst first, and what to run instead.
    pub fn defects(self) -> Vec<&'static str> {
        let known = DEFECTS.iter().filter(|defect| defect.is_in(self));
        known.map(|defect| defect.what).collect()
    }

    /// The least version of its line that has none of the known defects; of the lines that are not mended any more, that of the
    /// next one.
    pub fn sound(self) -> Self {
        let line = SOUND.iter().find(|sound| sound.line() >= self.line());
        line.copied().unwrap_or(self)
    }

    fn line(self) -> (u32, u32) {
        (self.major, self.minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The least version of each line without a known defect.
const SOUND: [Version; 3] = [
    Version::new(3, 5, 33),
    Version::new(3, 6, 14),
    Version::new(3, 7, 1),
];

/// Something that is wrong with some versions.
struct Defect {
    /// The first line that has it.
    since: (u32, u32),
    /// The version of each line in which it is mended. Lines before the first of them were never mended, those after the last
    /// never had it.
    mended: &'static [Version],
    /// Completes the sentence "this etcd …".
    what: &'static str,
}

impl Defect {
    fn is_in(&self, version: Version) -> bool {
        let line = version.line();
        if line < self.since {
            return false;
        }
        match self.mended.iter().find(|mended| mended.line() >= line) {
            Some(mended) => version < *mended,
            None => false,
        }
    }
}

const DEFECTS: [Defect; 12] = [
    Defect {
        since: (3, 5),
        mended: &[Version::new(3, 5, 3)],
        what: "may come to hold other data on one member than on the others when it is killed under load",
    },
    Defect {
        since: (3, 5),
        mended: &[Version::new(3, 5, 6)],
        what: "may count revisions otherwise on one member than on the others after that was killed while it was defragmented",
    },
    Defect {
        since: (0, 0),
        mended: &[Version::new(3, 4, 21), Version::new(3, 5, 5)],
        what: "may forget what it has answered when it is the only member and is killed",
    },
    Defect {
        since: (0, 0),
        mended: &[Version::new(3, 4, 32), Version::new(3, 5, 14)],
        what: "may count revisions anew after it was killed while it compacted, and fencing tokens are made of revisions",
    },
    Defect {
        since: (0, 0),
        mended: &[Version::new(3, 4, 31), Version::new(3, 5, 13)],
        what: "may end leases too early after its leader stalled, and reservations with them",
    },
    Defect {
        since: (3, 5),
        mended: &[Version::new(3, 5, 17)],
        what: "may apply a part of a transaction",
    },
    Defect {
        since: (3, 5),
        mended: &[Version::new(3, 5, 23), Version::new(3, 6, 5)],
        what: "may say that a lease was renewed which it has ended, and may lose data when it is defragmented while it catches up",
    },
    Defect {
        since: (0, 0),
        mended: &[
            Version::new(3, 4, 42),
            Version::new(3, 5, 28),
            Version::new(3, 6, 9),
        ],
        what: "lets users pass by their rights with nested transactions (CVE-2026-33343, CVE-2026-33413), and may read what is out of date after a pause",
    },
    Defect {
        since: (0, 0),
        mended: &[
            Version::new(3, 4, 44),
            Version::new(3, 5, 30),
            Version::new(3, 6, 11),
        ],
        what: "lets users read and attach to leases beyond their rights in nested transactions (CVE-2026-44283)",
    },
    Defect {
        since: (0, 0),
        mended: &[Version::new(3, 4, 20), Version::new(3, 5, 7)],
        what: "takes no deletion in a transaction when it has no space, so that nothing can be released",
    },
    Defect {
        since: (0, 0),
        mended: &[
            Version::new(3, 5, 33),
            Version::new(3, 6, 14),
            Version::new(3, 7, 1),
        ],
        what: "does not hold nested transactions against its quota: it takes writes beyond it until the disk is full",
    },
    Defect {
        since: (0, 0),
        mended: &[Version::new(3, 5, 0)],
        what: "is of a line that gets no fixes any more",
    },
];

/// What one endpoint runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    /// The endpoint.
    pub endpoint: String,
    /// What it says of itself; otherwise why it did not.
    pub version: Result<String, String>,
}

impl Store {
    /// Asks each endpoint what it runs, all at once.
    pub async fn versions(&self) -> Vec<Runs> {
        let asked = self.session().order().into_iter().map(|(_, member)| {
            let ask = self.session().ask(member, SAY_LIMIT, |member: &Member| {
                let mut maintenance = member.maintenance.clone();
                async move { maintenance.status().await }
            });
            async move {
                Runs {
                    endpoint: member.name.clone(),
                    version: match ask.await {
                        Ok(status) => Ok(status.version().to_owned()),
                        Err((_, detail)) => Err(detail),
                    },
                }
            }
        });
        join_all(asked).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn a_version_is_three_numbers_and_maybe_a_word() {
        assert_eq!(version("3.6.16"), Version::new(3, 6, 16));
        assert_eq!(version("3.7.0-rc.0"), Version::new(3, 7, 0));
        for bad in ["", "3", "3.6", "3.6.x", "v3.6.1", "3.6.1.2", "not built"] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_version_is_told_of_what_is_mended_later_in_its_own_line() {
        let has = |text: &str, part: &str| {
            let defects = version(text).defects();
            defects.iter().any(|defect| defect.contains(part))
        };
        for (affected, mended, part) in [
            ("3.5.2", "3.5.3", "other data"),
            ("3.5.5", "3.5.6", "revisions otherwise"),
            ("3.4.20", "3.4.21", "only member"),
            ("3.5.4", "3.5.5", "only member"),
            ("3.4.19", "3.4.20", "no deletion"),
            ("3.5.6", "3.5.7", "no deletion"),
            ("3.4.31", "3.4.32", "revisions anew"),
            ("3.5.13", "3.5.14", "revisions anew"),
            ("3.5.12", "3.5.13", "too early"),
            ("3.5.16", "3.5.17", "a part of"),
            ("3.6.4", "3.6.5", "renewed"),
            ("3.6.8", "3.6.9", "CVE-2026-33343"),
            ("3.6.10", "3.6.11", "attach"),
            ("3.7.0", "3.7.1", "quota"),
            ("3.4.44", "3.5.33", "no fixes"),
        ] {
            assert!(has(affected, part), "{affected} {part}");
            assert!(!has(mended, part), "{mended} {part}");
        }
        // It never was in these lines.
        assert!(!has("3.4.23", "other data") && !has("3.6.0", "revisions anew"));
        // A line that was left before the fix is not mended.
        assert!(has("3.3.27", "revisions anew"));
    }

    #[test]
    fn a_sound_version_is_told_nothing_and_all_others_what_to_run() {
        for sound in [
            "3.5.33", "3.5.35", "3.6.14", "3.6.16", "3.7.1", "3.8.0", "4.0.0",
        ] {
            assert_eq!(version(sound).defects(), [""; 0], "{sound}");
        }
        for (old, instead) in [
            ("3.3.10", "3.5.33"),
            ("3.4.23", "3.5.33"),
            ("3.6.0", "3.6.14"),
        ] {
            assert!(!version(old).defects().is_empty(), "{old}");
            assert_eq!(version(old).sound(), version(instead), "{old}");
            assert!(version(old).sound().defects().is_empty(), "{old}");
        }
    }
}
