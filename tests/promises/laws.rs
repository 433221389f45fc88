//! One promise under both laws: where each request says from where to where, and where a machine does.

use fencepost::domain::ids::ResourceId;

use crate::support::ask::{Ask, ask, create, fresh_resource, resource_of};
use crate::support::claim::applied;
use crate::support::sidecar::Sidecar;

/// The kind that has the machine; a test has a prefix of its own, so it is nobody else's.
const RULED: &str = "ruled-order";
const MACHINE: &str = "kind: ruled-order\nversion: 1\nretention: 96h\n\
    states: { pending: {}, paid: {}, shipped: { final: true }, cancelled: { final: true } }\n\
    events:\n  make: { creates: pending }\n  pay: { from: [pending], to: paid, interrupted: ask }\n  \
    pay_again: { from: [pending], to: paid, interrupted: rerun }\n  cancel: { from: [pending], to: cancelled }\n  \
    mail: { from: [pending, paid] }\n  ship: { from: [paid], to: shipped }\n";

/// What the resources of a test are judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Requests,
    Machine,
}

impl By {
    /// An order that waits for its payment.
    pub(crate) async fn pending(self, sidecar: &Sidecar) -> ResourceId {
        let id = fresh_resource();
        let (order, made) = match self {
            Self::Requests => (id.clone(), create(&id, "pending")),
            Self::Machine => {
                sidecar.apply(MACHINE).await;
                let order = resource_of(RULED, id.id());
                let made = ask(&order, "create").event("make");
                (order, made)
            }
        };
        let made = sidecar.transition(&made).await;
        applied(&made);
        let judged_by = made.now.and_then(|now| now.machine);
        assert_eq!(judged_by.is_some(), self == Self::Machine);
        order
    }
}

/// An operation of a name of its own, as the order's law is told it.
fn move_of(order: &ResourceId, name: &str, event: &str, way: [&str; 2]) -> Ask {
    let asked = ask(order, name);
    if order.kind().as_str() == RULED {
        return asked.event(event);
    }
    asked.from(&[way[0]]).to(way[1])
}

pub(crate) fn pay(order: &ResourceId) -> Ask {
    move_of(order, "pay", "pay", ["pending", "paid"])
}

/// The same; if a claim of it dies, it may run again.
pub(crate) fn paying_again(order: &ResourceId) -> Ask {
    let pay = move_of(order, "pay", "pay_again", ["pending", "paid"]);
    if order.kind().as_str() == RULED {
        pay
    } else {
        pay.reruns()
    }
}

pub(crate) fn cancel(order: &ResourceId) -> Ask {
    move_of(order, "cancel", "cancel", ["pending", "cancelled"])
}

pub(crate) fn ship(order: &ResourceId) -> Ask {
    move_of(order, "ship", "ship", ["paid", "shipped"])
}

/// What moves nothing.
pub(crate) fn mail(order: &ResourceId) -> Ask {
    let mail = ask(order, "mail");
    if order.kind().as_str() == RULED {
        mail.event("mail")
    } else {
        mail
    }
}

/// Makes four tests of each claim about a `Backend` and a law: on both engines, by both laws.
macro_rules! by_both_laws {
    ($($claim:ident),* $(,)?) => {
        mod by_requests {
            $(async fn $claim(backend: crate::support::backend::Backend) {
                super::$claim(backend, super::By::Requests).await;
            })*
            crate::support::engines! { $($claim),* }
        }

        mod by_machine {
            $(async fn $claim(backend: crate::support::backend::Backend) {
                super::$claim(backend, super::By::Machine).await;
            })*
            crate::support::engines! { $($claim),* }
        }
    };
}
pub(crate) use by_both_laws;
