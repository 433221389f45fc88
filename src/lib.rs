//! Fencepost: a coordination sidecar over etcd. `ARCHITECTURE.md` says what it guarantees and why it is built this way.
//!
//! # Map
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`cli`] | the commands; the only place, beside `transport`, that reads protobuf |
//! | `server`, `config` | start and stop, flags and environment |
//! | [`transport`] | gRPC and JSON in and out |
//! | [`engine`] | lanes, committer, leases: where time and concurrency live |
//! | [`store`] | etcd: every key, every transaction, every record |
//! | [`domain`] | what is decided, as pure functions |
//! | [`embedded`] | the development engine: etcd in memory, behind etcd's own service traits |
//!
//! # Layer rule
//!
//! main → cli → server → transport → engine → store → domain, and never upward. `embedded` stands alone. `domain` knows no
//! runtime, no network and no clock. Only `store` and `embedded` name `etcd_client`. `tests/tidy.rs` keeps this.
//!
//! # Words
//!
//! One word, one meaning, in the interface, the code and the docs.
//!
//! | word | meaning |
//! | --- | --- |
//! | resource | what is coordinated: a kind and an id |
//! | operation | one business action, named by the sender's stable `operation_id`, scoped to its resource |
//! | request | one attempt of a caller, named by a fresh `request_id`; a retry of that very call repeats it |
//! | content, digest | what a message says, and the hash that tells the same content from another |
//! | identity | the smallest named values that prove which round a message belongs to |
//! | reservation | one round of holding a resource: an id, a token, a TTL, a lease |
//! | round | a reservation, seen from its resource: at most one is live |
//! | lead | of several resources in one round the first in order; it names the round, and its record lists the others |
//! | token | the fencing token: the timeline's base plus the etcd revision of the grant; it only rises |
//! | decision | advice, verdict, layer, rule, explanation, and the resource as it stood |
//! | record | everything known of one resource, committed as a whole |
//! | nonce | random, drawn for each request that may write, so that its own write is recognised later |
//! | fold | judging several requests for one resource, one after another, into one commit |
//! | lane | what waits for one resource, with at most one commit in flight |
//! | spilled | moved from the record to a key of its own |
//! | machine | the states and events of one kind, from a file; in force in etcd, one version at a time |
//! | law | what the resources of a kind are judged by: a machine, or the requests themselves |
//! | terms | what the law makes of one request: from where to where, which values, what a refusal means |
//! | disposition | what becomes of an event in a state, as far as the machine tells |
//! | incident | a durable record of something that a person must judge; one for each operation and kind of finding |
//! | story | what is known of one resource, told in sentences for people |
//! | evidence | a result that was not taken, though its effect may have run; kept in the incident |
//! | waiter | a call that stays while its operation is in progress, or its resource busy; all of one have one follower |
//! | queue, place | those who wait for a busy resource, and where one stands among them: whoever was entered first comes first |
//! | entry, session | the key of one who waits, and the lease and key of the sidecar that all its entries hang on |
//! | turn | when the resource is free and nobody comes before |
//! | hold | a stream of one holder, whose reservations are renewed for as long as it is open |
//! | bound | until when a reservation is certainly held; past it nobody relies on it |
//! | timeline | the history since the store was last restored; owns the base of the tokens |
//! | halt | that nothing is judged in a timeline until a person has started the next one |

pub mod cli;
pub mod config;
pub mod domain;
pub mod embedded;
pub mod engine;
pub mod observe;
pub mod proto;
pub mod server;
pub mod store;
pub mod transport;
