//! A command that runs under a reservation, from its start to the reservation's end.

use std::time::Duration;

use rustix::process::Signal;

use super::super::exit::Exit;
use super::super::output::say;
use super::super::trouble::{Trouble, plain};
use super::OnFailure;
use super::alarm::Alarm;
use super::answers::{Ending, how_to_find_out, how_to_resolve, not_stored, stored};
use super::child::{End, Event, Running};
use super::guard::Guard;
use super::keeping::Keeping;
use super::limits::{Limits, guard_at};
use super::program::Program;
use super::round::{Effect, Round, Wanted};
use super::signals::Signals;
use super::start::Started;
use super::terminal::{Terminal, Then};
use crate::engine::Boottime;
use crate::proto::v1::{Decision, Verdict};

/// Taken out of the command's environment, for they say what *this* command is to do: one that calls `exec` itself must not take
/// its caller's key, what becomes of that, further resources or attempt for its own.
const NOT_PASSED_ON: [&str; 7] = [
    "FENCEPOST_ONCE_KEY",
    "FENCEPOST_EVENT",
    "FENCEPOST_IDENTITY",
    "FENCEPOST_ON_FAILURE",
    "FENCEPOST_DONE_CODE",
    "FENCEPOST_ALSO",
    "FENCEPOST_HELD_ATTEMPT",
];

/// How long the sidecar may take to be told of the end of a command once somebody wants us to end, too.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// The rule by which a sidecar tells that the operation of a reservation that is over was finished without it.
const SETTLED_WITHOUT: &str = "DONE_WITHOUT_ROUND";

/// All that a run needs.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) wanted: Wanted,
    pub(super) round: Round,
    pub(super) program: Program,
    pub(super) limits: Limits,
    /// The key, and what becomes of it.
    pub(super) once: Option<(String, OnFailure)>,
    pub(super) addr: String,
}

/// The command has ended.
#[derive(Debug)]
struct Over {
    end: End,
    started: Started,
    /// Why it was told to stop, if it was.
    lost: Option<String>,
}

impl Run {
    /// Runs it, and tells the sidecar what came of it.
    pub(super) async fn carry_out(
        self,
        mut signals: Signals,
        mut terminal: Terminal,
    ) -> Result<Ending, Trouble> {
        let id = &self.round.id;
        // Asking may have taken so long, or the machine have slept, that nothing is left to run in.
        if self.limits.stop_at(self.round.bound).left().is_zero() {
            self.wanted.release(id, Effect::None).await;
            let said = "not run: the answer came too late, the reservation is as good as over";
            return Ok(Ending::saying(Exit::Abandon.number(), said));
        }
        let (session, name) = (&self.wanted.session, self.program.name());
        let mut keeping = Keeping::start(session, &self.round, name, self.limits);
        let over = match self.begin() {
            Ok((running, guard, alarm)) => self
                .until_it_ends(
                    running,
                    &guard,
                    &alarm,
                    &mut keeping,
                    &mut signals,
                    &mut terminal,
                )
                .await
                .map(|over| (over, guard)),
            Err(error) => {
                self.wanted.release(id, Effect::None).await;
                return Ok(self.program.refused(&error).into());
            }
        };
        let (over, guard) = over?;
        guard.dismiss();
        // A result is told for as long as it can be; whoever does not want to wait for that says so.
        let code = over.end.code();
        let given_up = async {
            signals.next_to_end(&terminal).await;
            tokio::time::sleep(LAST_CHANCE).await;
        };
        tokio::select! {
            ending = self.tell(over, &keeping) => Ok(ending),
            () = given_up => {
                let mut said =
                    format!("the command ended with {code}, and the sidecar may not have been told");
                if self.once.is_some() {
                    said.push_str("; ");
                    said.push_str(&self.to_find_out());
                }
                Ok(Ending::saying(Exit::Unknown.number(), said))
            }
        }
    }

    fn begin(&self) -> std::io::Result<(Running, Guard, Alarm)> {
        let alarm = Alarm::new()?;
        let guard = Guard::start(self.round.bound)?;
        let running = Running::start(&self.program, &self.variables(), &NOT_PASSED_ON)?;
        guard.over(running.group());
        Ok((running, guard, alarm))
    }

    /// What the command is told. None of the names is that of a flag, which a command that calls `fencepost` would take for it.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let resource = self.wanted.resource();
        let mut variables = vec![
            ("FENCEPOST_HELD_TOKEN", self.round.token.to_string()),
            ("FENCEPOST_HELD_RESERVATION", self.round.id.clone()),
            ("FENCEPOST_HELD_KIND", resource.kind),
            ("FENCEPOST_HELD_ID", resource.id),
            ("FENCEPOST_ADDR", self.addr.clone()),
        ];
        // Without one of its own it must not hear that of an `exec` around it.
        if self.once.is_some() {
            variables.push(("FENCEPOST_HELD_ATTEMPT", self.round.attempt.to_string()));
        }
        variables
    }

    /// Passes signals on, and stops the command in time if the reservation is not renewed.
    async fn until_it_ends(
        &self,
        mut running: Running,
        guard: &Guard,
        alarm: &Alarm,
        keeping: &mut Keeping,
        signals: &mut Signals,
        terminal: &mut Terminal,
    ) -> Result<Over, Trouble> {
        let mut bound = self.round.bound;
        let mut lost = None;
        // Whether the guard may have killed it under an older bound, before it was told of the next.
        let mut guard_was_due = false;
        // While it may run: when it is told to stop. Once it was: when it is killed.
        let mut due = Some(self.limits.stop_at(bound));
        let end = loop {
            let moment = due.unwrap_or(bound);
            tokio::select! {
                // Whoever goes on after a stop or a suspend looks at the clock before anything else goes on.
                biased;
                event = running.next() => match event {
                    Event::Ended(end) => break end,
                    Event::Stopped(by) => {
                        if terminal.stopped(running.group(), by) == Then::Continue {
                            running.signal(Signal::CONT);
                        }
                    }
                },
                () = keeping.changed() => {
                    let standing = keeping.standing();
                    // What comes after it was told to stop does not make that undone.
                    if lost.is_some() {
                        continue;
                    }
                    guard_was_due |= guard_at(bound).left().is_zero();
                    bound = standing.bound;
                    guard.tell(bound);
                    due = Some(self.limits.stop_at(bound));
                    if let Some(why) = standing.lost {
                        keeping.give_up();
                        due = Some(self.stop(&running, bound, &why));
                        lost = Some(why);
                    }
                },
                rung = alarm.until(moment), if due.is_some() => {
                    rung.map_err(|error| Trouble::failed(format!("the clock fails: {error}")))?;
                    if lost.is_some() {
                        running.signal(Signal::KILL);
                        due = None;
                    } else {
                        keeping.give_up();
                        let why = "it was not renewed in time".to_owned();
                        due = Some(self.stop(&running, bound, &why));
                        lost = Some(why);
                    }
                },
                signal = signals.next() => {
                    if signal == Signal::CONT {
                        terminal.continued(running.group());
                    }
                    running.signal(signal);
                },
            }
        };
        let killed = matches!(end, End::Killed(by) if by == Signal::KILL.as_raw());
        let in_vain = guard_was_due || self.limits.stop_at(bound).left().is_zero();
        if lost.is_none() && killed && in_vain {
            // The guard was first: this process was stopped itself, and had not heard of its own alarm.
            keeping.give_up();
            lost = Some("it was not known in time to last on".to_owned());
        }
        terminal.take_back(running.group());
        let left_behind = Boottime::now().plus(self.limits.grace());
        let until = due.map_or(bound, |due| left_behind.min(due));
        let started = running.finish(until).await;
        Ok(Over { end, started, lost })
    }

    /// Tells it to stop; answers when it is killed.
    fn stop(&self, running: &Running, bound: Boottime, why: &str) -> Boottime {
        let name = self.program.name();
        say(&format!(
            "fencepost: the reservation is lost ({}); {name} is told to stop\n",
            plain(why)
        ));
        running.signal(Signal::TERM);
        // One that was stopped would not notice.
        running.signal(Signal::CONT);
        self.limits.kill_at(Boottime::now(), bound)
    }

    /// Ends the reservation, with the operation if there is one, and says how that went.
    async fn tell(&self, over: Over, keeping: &Keeping) -> Ending {
        let id = &self.round.id;
        if let Started::Not(error) = &over.started {
            self.wanted.release(id, Effect::None).await;
            return self.program.refused(error).into();
        }
        let code = over.end.code();
        let taken = matches!(over.end, End::Exited(0))
            || matches!(
                (over.end, &self.once),
                (End::Exited(_), Some((_, OnFailure::Record)))
            );
        if over.lost.is_none() && taken && self.once.is_some() {
            return match self.wanted.complete(&self.round, code, keeping).await {
                Ok(decision) => {
                    if decision.verdict() == Verdict::Fenced {
                        // A code of 0 alone would not be kept.
                        self.wanted.tell_late(id, over.end).await;
                    }
                    stored(&decision, code)
                }
                Err(trouble) => not_stored(&trouble, code, &self.to_find_out()),
            };
        }
        let effect = match &self.once {
            Some(_) => Effect::Ended(over.end),
            None => Effect::Unknown,
        };
        let released = self.wanted.release(id, effect).await;
        let over_before = matches!(&released, Some(said) if said.verdict() == Verdict::Replayed);
        let late = if self.once.is_some() && over_before {
            self.wanted.tell_late(id, over.end).await
        } else {
            None
        };
        let mut said = match &over.lost {
            Some(_) => {
                format!("the reservation was lost while the command ran; it ended with {code}")
            }
            None => format!("the command ended with {code}"),
        };
        if released.is_none() {
            said.push_str(
                ", of which the sidecar was not told; the reservation runs out by itself",
            );
        }
        let open = self.left_open(released.as_ref(), late.as_ref());
        let quiet = over.lost.is_none() && released.is_some() && open.is_none();
        said.extend(open.map(|open| format!("; {open}")));
        match over.lost {
            Some(_) => Ending::saying(Exit::Abandon.number(), said),
            None if quiet => Ending::quiet(code),
            None => Ending::saying(code, said),
        }
    }

    /// The resource, for people.
    fn place(&self) -> String {
        let resource = self.wanted.resource();
        plain(&format!("{} {}", resource.kind, resource.id))
    }

    /// What is to be done where it is not known whether a result was stored. Empty without a key.
    fn to_find_out(&self) -> String {
        let event = self.wanted.request.intent.as_ref();
        // The machine of an event may let it run again.
        let judged = event.is_some_and(|intent| !intent.event.is_empty());
        self.once
            .as_ref()
            .map_or_else(String::new, |(key, on_failure)| {
                let reruns = judged || *on_failure == OnFailure::Rerun;
                how_to_find_out(&self.place(), &plain(key), reruns)
            })
    }

    /// What becomes of the operation now that it has no result.
    fn left_open(&self, released: Option<&Decision>, late: Option<&Decision>) -> Option<String> {
        let (key, on_failure) = self.once.as_ref()?;
        let key = plain(key);
        if let Some(late) = late.filter(|late| late.rule == SETTLED_WITHOUT) {
            return Some(format!(
                "{key} was settled by somebody else meanwhile; how this ended is kept in incident {}",
                plain(&late.incident_id)
            ));
        }
        let asks = match released {
            // Whether it may run again says the machine, if there is one; and what may, may not for ever.
            Some(said) if said.verdict() == Verdict::Applied => !said.incident_id.is_empty(),
            Some(_) | None => *on_failure != OnFailure::Rerun,
        };
        if !asks {
            return Some(format!("{key} may be run again"));
        }
        let resolve = how_to_resolve(&self.place(), &key);
        let incident = released.map_or("", |said| said.incident_id.as_str());
        if incident.is_empty() {
            return Some(resolve);
        }
        Some(format!("incident {}: {resolve}", plain(incident)))
    }
}
