//! Writing to standard output.

use std::io::{ErrorKind, Write};

use prost::Message;

use super::json;
use super::session::Output;
use super::table::Table;
use super::trouble::Trouble;

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
