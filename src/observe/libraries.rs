//! What the libraries say. Some of them warn of each thing that a peer does wrong, as often as it does it; so such lines are
//! written sparingly, as our own are.

use tracing::{Event, Level, Subscriber, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::engine::Sparing;

/// Where our own lines come from.
const OURS: &str = env!("CARGO_PKG_NAME");

/// Leaves out warnings and errors of libraries beyond a few a second. What is less than a warning is written only by whoever asked
/// for it, and then as it is.
#[derive(Debug, Default)]
pub(super) struct Libraries(Sparing);

impl<S: Subscriber> Layer<S> for Libraries {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let told = event.metadata();
        if *told.level() > Level::WARN || is_ours(told.target()) {
            return true;
        }
        let Some(unsaid) = self.0.speak() else {
            return false;
        };
        if unsaid > 0 {
            warn!(unsaid, "libraries warned of more than was written");
        }
        true
    }
}

fn is_ours(target: &str) -> bool {
    let rest = target.strip_prefix(OURS);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_is_told_by_its_module() {
        assert!(is_ours("fencepost") && is_ours("fencepost::observe"));
        assert!(!is_ours("fencepostal") && !is_ours("h2::proto::ping_pong"));
    }
}
