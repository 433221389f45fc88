//! `demo`: plays what goes wrong without a sidecar, and judges each scene by the demo's own ledger of effects.

mod law;
mod ledger;
mod machines;
mod scenes;
mod seat;
mod shop;
mod stage;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use self::law::Law;
use self::scenes::Scene;
use self::stage::{Played, Stage};
use super::address::Address;
use super::exit::Exit;
use super::output;
use super::session::{PrintingArgs, SessionArgs};
use super::trouble::{Trouble, plain};
use crate::config::admin_socket_path;
use crate::server::start_dev_under;

/// The exit codes of this command.
pub(super) const HELP: &str = "\
Exit codes:
   0  every scene came out right
   1  a scene came out wrong
   2  the command line cannot be understood
  69  no sidecar answers
  70  what listens there does not offer what is played";

/// Any free port of this machine.
const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Plays the scenes.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Play against this sidecar; its resources of kind `demo-…` are left behind [default: one of its own, in memory]
    // Not FENCEPOST_ADDR: who has set that for daily use does not ask for a demo there.
    #[arg(long, env = "FENCEPOST_DEMO_ADDR", value_parser = Address::parse)]
    addr: Option<Address>,
    /// Its admin socket, over which the machines of machines/ are put in force for kinds `demo-…`; `none`: play without them
    /// [default: the one that belongs to the port of --addr]
    // Not FENCEPOST_ADMIN_SOCKET, for the same reason: it may belong to another sidecar than the one that is played against.
    #[arg(
        long,
        env = "FENCEPOST_DEMO_ADMIN_SOCKET",
        value_name = "PATH",
        requires = "addr"
    )]
    admin_socket: Option<PathBuf>,
    #[command(flatten)]
    printing: PrintingArgs,
}

impl DemoArgs {
    /// Plays every scene, then sums up.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        if let Some(addr) = self.addr.clone() {
            return self.play_against(addr).await;
        }
        let own = start_dev_under(ANY_PORT, &machines::as_filed()).await.map_err(|error| {
            Trouble::failed(format!(
                "cannot start a sidecar for the demo ({error}): start one with `fencepost dev` and name it with --addr"
            ))
        })?;
        let ended = match Address::parse(&own.addr().to_string()) {
            Ok(addr) => self.play_on_its_own(addr).await,
            Err(why) => Err(Trouble::failed(format!(
                "the demo's own sidecar has no usable address: {why}"
            ))),
        };
        own.stop().await;
        ended
    }

    async fn play_on_its_own(&self, addr: Address) -> Result<Exit, Trouble> {
        let session = self.session(addr);
        let stage = Stage::open(&session, Law::AsFiled).await?;
        let whose = "a sidecar of its own, in memory, at";
        let under = "Its orders and seats follow machines/order.yaml and machines/seat.yaml.";
        play(&stage, whose, &session.addr, under).await
    }

    async fn play_against(&self, addr: Address) -> Result<Exit, Trouble> {
        let session = self.session(addr);
        let given = self.admin_socket.clone();
        let socket = given.unwrap_or_else(|| admin_socket_path(session.addr.port()));
        let stage = Stage::open(&session, Law::UnderOwnKinds).await?;
        stage.is_a_sidecar().await?;
        let applied = match machines::apply(&socket, session.printing.timeout).await {
            Ok(()) if stage.knows_the_machine().await? => Ok(()),
            Ok(()) => Err(plain(&format!(
                "this sidecar does not know them: the admin socket {} must be another one's",
                socket.display()
            ))),
            Err(why) => Err(why),
        };
        let (stage, under) = match applied {
            Ok(()) => (
                stage,
                "Orders and seats follow machines/order.yaml and machines/seat.yaml, applied for the kinds `demo-order` \
                 and `demo-seat`."
                    .to_owned(),
            ),
            Err(why) => (
                stage.without_machines(),
                format!("Played WITHOUT machines, each request says what it may: {why}."),
            ),
        };
        play(&stage, "the sidecar at", &session.addr, &under).await
    }

    fn session(&self, addr: Address) -> SessionArgs {
        SessionArgs {
            addr,
            printing: self.printing.clone(),
        }
    }
}

async fn play(stage: &Stage, whose: &str, addr: &Address, under: &str) -> Result<Exit, Trouble> {
    output::write(&format!(
        "Fencepost demo against {whose} {addr}\n{under}\n\
         A message states a fact; only the current state grants permission.\n\n",
    ))?;
    let mut all = Vec::new();
    for scene in Scene::ALL {
        let played = match scene.play(stage).await {
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
