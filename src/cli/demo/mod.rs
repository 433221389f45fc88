//! `demo`: plays what goes wrong without a sidecar, and judges each scene by the demo's own ledger of effects.

mod ledger;
mod scenes;
mod shop;
mod stage;

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;

use self::scenes::Scene;
use self::stage::{Played, Stage};
use super::address::Address;
use super::exit::Exit;
use super::output;
use super::session::{PrintingArgs, SessionArgs};
use super::trouble::Trouble;
use crate::server::start_dev;

/// The exit codes of this command.
pub(super) const HELP: &str = "\
Exit codes:
   0  every scene came out right
   1  a scene came out wrong
   2  the command line cannot be understood
  69  no sidecar answers";

/// Any free port of this machine.
const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Plays the scenes.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Play against this sidecar; its resources of kind `demo-…` are left behind [default: one of its own, in memory]
    // Not FENCEPOST_ADDR: who has set that for daily use does not ask for a demo there.
    #[arg(long, env = "FENCEPOST_DEMO_ADDR", value_parser = Address::parse)]
    addr: Option<Address>,
    #[command(flatten)]
    printing: PrintingArgs,
}

impl DemoArgs {
    /// Plays every scene, then sums up.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        if let Some(addr) = self.addr.clone() {
            return self.play(addr, "the sidecar at").await;
        }
        let own = start_dev(ANY_PORT).await.map_err(|error| {
            Trouble::failed(format!(
                "cannot start a sidecar for the demo ({error}): start one with `fencepost dev` and name it with --addr"
            ))
        })?;
        let ended = match Address::parse(&own.addr().to_string()) {
            Ok(addr) => self.play(addr, "a sidecar of its own, in memory, at").await,
            Err(why) => Err(Trouble::failed(format!(
                "the demo's own sidecar has no usable address: {why}"
            ))),
        };
        own.stop().await;
        ended
    }

    async fn play(&self, addr: Address, whose: &str) -> Result<Exit, Trouble> {
        let session = SessionArgs {
            addr,
            printing: self.printing.clone(),
        };
        let stage = Stage::open(&session).await?;
        output::write(&format!(
            "Fencepost demo against {whose} {}\n\
             A message states a fact; only the current state grants permission.\n\n",
            session.addr
        ))?;
        let mut all = Vec::new();
        for scene in Scene::ALL {
            let played = match scene.play(&stage).await {
                Ok(played) => played,
                Err(trouble) => Played::broken_off(&trouble.message),
            };
            output::write(&told(scene, &played))?;
            all.push((scene, played));
        }
        output::write(&summary(&all))?;
        let right = all.iter().all(|(_, played)| played.wrong.is_empty());
        Ok(if right { Exit::Good } else { Exit::SceneFailed })
    }
}

fn told(scene: Scene, played: &Played) -> String {
    let mut text = format!("Scene {}: {}\n", scene.number(), scene.title());
    for line in &played.story {
        text.push_str(&format!("  {line}\n"));
    }
    for line in &played.wrong {
        text.push_str(&format!("  WRONG: {line}\n"));
    }
    text.push('\n');
    text
}

fn summary(all: &[(Scene, Played)]) -> String {
    let mut rows = vec![["scene", "what was at stake", "came out", ""].map(str::to_owned)];
    for (scene, played) in all {
        let verdict = if played.wrong.is_empty() {
            "ok"
        } else {
            "FAILED"
        };
        rows.push([
            scene.number().to_string(),
            scene.stake().to_owned(),
            played.came_out.clone(),
            verdict.to_owned(),
        ]);
    }
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths = [width(0), width(1), width(2)];
    let mut text = String::new();
    for [scene, stake, came_out, verdict] in &rows {
        let line = format!(
            "{scene:<a$} | {stake:<b$} | {came_out:<c$} | {verdict}",
            a = widths[0],
            b = widths[1],
            c = widths[2]
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let failed = all
        .iter()
        .filter(|(_, played)| !played.wrong.is_empty())
        .count();
    // Whoever reads the numbers misses some.
    text.push_str(&format!("\n{}\n", Scene::MISSING));
    text.push_str(&match failed {
        0 => format!("All {} scenes came out right.\n", all.len()),
        failed => format!("{failed} of {} scenes came out WRONG.\n", all.len()),
    });
    text
}
