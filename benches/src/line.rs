//! A line to a server that can be cut.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use crate::Outcome;

/// How much is carried at once, in bytes.
const CHUNK_BYTES: usize = 16 * 1024;
/// How many of these are on their way at once.
const ON_THE_WAY_MAX: usize = 1024;

/// Forwards from a port of its own. Its threads end with this process.
pub(crate) struct Line {
    pub(crate) url: String,
    state: Arc<State>,
}

struct State {
    to: String,
    /// How long a byte is on its way.
    length: Duration,
    cut: AtomicBool,
    ends: Mutex<Vec<TcpStream>>,
}

impl Line {
    /// To a `http://` address.
    pub(crate) fn to(url: &str) -> Outcome<Self> {
        Self::of_length(url, Duration::ZERO)
    }

    /// The same, where every byte takes so long, each way.
    pub(crate) fn of_length(url: &str, length: Duration) -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            to: url.trim_start_matches("http://").to_owned(),
            length,
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
        // Those of lines that are over would stay open for nothing.
        ends.retain(|end| end.peer_addr().is_ok());
        if self.cut.load(Ordering::SeqCst) {
            return Ok(());
        }
        let server = TcpStream::connect(&self.to)?;
        for end in [&client, &server] {
            end.set_nodelay(true)?;
            ends.push(end.try_clone()?);
        }
        let (back_from, back_to) = (server.try_clone()?, client.try_clone()?);
        let length = self.length;
        std::thread::spawn(move || carry(client, server, length));
        std::thread::spawn(move || carry(back_from, back_to, length));
        Ok(())
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, length: Duration) {
    if length > Duration::ZERO {
        return carry_far(from, to, length);
    }
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        if to.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// What is read while something else is on its way is not held up by that.
fn carry_far(mut from: TcpStream, mut to: TcpStream, length: Duration) {
    let (sent, arriving) = mpsc::sync_channel::<(Instant, Vec<u8>)>(ON_THE_WAY_MAX);
    std::thread::spawn(move || {
        for (at, bytes) in arriving {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = from.read(&mut chunk) {
        if sent
            .send((Instant::now() + length, chunk[..read].to_vec()))
            .is_err()
        {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
}
