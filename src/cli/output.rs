//! Writing to standard output and standard error.

use std::io::{ErrorKind, IsTerminal as _, Write};
use std::time::Duration;

use prost::Message;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::exit::Exit;
use super::json;
use super::session::Output;
use super::table::Table;
use super::trouble::{Trouble, plain};

/// How often it is looked whether anybody reads what goes on for long.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Goes on for as long as somebody may read what is told, which is not known by writing where little is told. Whoever started this
/// may have died; what was held for it must not be held for ever.
pub(super) async fn while_read(
    telling: impl Future<Output = Result<Exit, Trouble>>,
) -> Result<Exit, Trouble> {
    let unread = async {
        while !nobody_reads() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        ended = telling => ended,
        () = unread => Ok(Exit::Good),
    }
}

/// Whether the other end of standard output is gone.
fn nobody_reads() -> bool {
    let out = std::io::stdout();
    let mut ends = [PollFd::new(&out, PollFlags::empty())];
    let looked = poll(&mut ends, Some(&Timespec::default()));
    let gone = PollFlags::ERR | PollFlags::HUP;
    looked.is_ok() && ends.iter().any(|end| end.revents().intersects(gone))
}

/// Writes an answer in the wanted form.
pub(super) fn answer(
    output: Output,
    name: &str,
    message: &impl Message,
    fill: impl FnOnce(&mut Table),
) -> Result<(), Trouble> {
    let text = match output {
        Output::Json => json::line(name, message)?,
        Output::Table => {
            let mut table = Table::default();
            fill(&mut table);
            table.render()
        }
    };
    write(&text)
}

/// Says something beside the answer. Nobody may be reading, which is no reason to fail: the exit code tells, too.
pub(super) fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// A file from elsewhere: as it is for whoever reads on, and with nothing in it that commands a terminal for people.
pub(super) fn file(source: &[u8]) -> Result<(), Trouble> {
    let text = String::from_utf8_lossy(source);
    if !std::io::stdout().is_terminal() {
        return write(&text);
    }
    let shown: Vec<String> = text.split('\n').map(plain).collect();
    write(&shown.join("\n"))
}

/// Writes a text. A reader that has seen enough, such as `head`, is no error.
pub(super) fn write(text: &str) -> Result<(), Trouble> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Trouble::failed(format!(
            "cannot write to standard output: {error}"
        ))),
        Ok(()) | Err(_) => Ok(()),
    }
}
