//! A line to a server that can be cut.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Outcome;

/// How much is carried at once, in bytes.
const CHUNK_BYTES: usize = 16 * 1024;

/// Forwards from a port of its own. Its threads end with this process.
pub(crate) struct Line {
    pub(crate) url: String,
    state: Arc<State>,
}

struct State {
    to: String,
    cut: AtomicBool,
    ends: Mutex<Vec<TcpStream>>,
}

impl Line {
    /// To a `http://` address.
    pub(crate) fn to(url: &str) -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            to: url.trim_start_matches("http://").to_owned(),
            cut: AtomicBool::new(false),
            ends: Mutex::default(),
        });
        let accepting = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A line that cannot be had is closed, as by a server that is gone.
                let _ = accepting.accept(client);
            }
        });
        Ok(Self {
            url: format!("http://{address}"),
            state,
        })
    }

    /// Breaks every line, and each new one at once.
    pub(crate) fn cut(&self) {
        self.state.cut.store(true, Ordering::SeqCst);
        let mut ends = self.state.ends();
        for end in ends.drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

impl State {
    fn ends(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(&self, client: TcpStream) -> std::io::Result<()> {
        // Held until both ends are noted, so that a cut finds them.
        let mut ends = self.ends();
        if self.cut.load(Ordering::SeqCst) {
            return Ok(());
        }
        let server = TcpStream::connect(&self.to)?;
        for end in [&client, &server] {
            end.set_nodelay(true)?;
            ends.push(end.try_clone()?);
        }
        let (back_from, back_to) = (server.try_clone()?, client.try_clone()?);
        std::thread::spawn(move || carry(client, server));
        std::thread::spawn(move || carry(back_from, back_to));
        Ok(())
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        if to.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
