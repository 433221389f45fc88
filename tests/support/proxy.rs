//! A line between two processes that can be cut, frozen, or deaf in one direction.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use rustix::process::Pid;

use super::sockets;

/// How much is carried at once.
const CHUNK_BYTES: usize = 16 * 1024;
/// How often a frozen line looks whether it may go on.
const THAW_POLL: Duration = Duration::from_millis(5);

/// Forwards bytes from a port of its own to another. It ends with the test binary.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    to: Mutex<SocketAddr>,
    refuses: AtomicBool,
    frozen: AtomicBool,
    /// What was read of lines that are frozen, and is not yet carried on.
    held: Mutex<Vec<Vec<u8>>>,
    drops_replies: AtomicBool,
    dropped_bytes: AtomicUsize,
    lines: Mutex<Vec<TcpStream>>,
    /// Those that come from this process are broken.
    barred: Mutex<Option<Pid>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

impl Proxy {
    /// In front of an address.
    pub(crate) fn to(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(State {
            to: Mutex::new(to),
            refuses: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            held: Mutex::default(),
            drops_replies: AtomicBool::new(false),
            dropped_bytes: AtomicUsize::new(0),
            lines: Mutex::default(),
            barred: Mutex::default(),
        });
        let accepting = Arc::clone(&state);
        std::thread::spawn(move || {
            for line in listener.incoming().flatten() {
                accepting.accept(line);
            }
        });
        Self { address, state }
    }

    /// In front of a `http://` address.
    pub(crate) fn to_url(url: &str) -> Self {
        let address = url.trim_start_matches("http://").parse();
        Self::to(address.expect("an address with a port"))
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Breaks every line, and each new one at once.
    pub(crate) fn cut(&self) {
        self.state.refuses.store(true, Ordering::SeqCst);
        for line in self.state.lines.lock().unwrap().drain(..) {
            let _ = line.shutdown(Shutdown::Both);
        }
    }

    /// New lines lead there: to what has taken the place of what was there before.
    pub(crate) fn lead_to(&self, to: SocketAddr) {
        *self.state.to.lock().unwrap() = to;
    }

    /// Breaks every line that this process has made, and each new one; those of others stay.
    pub(crate) fn cut_from(&self, process: Pid) {
        *self.state.barred.lock().unwrap() = Some(process);
        for line in self.state.lines.lock().unwrap().iter() {
            self.state.break_if_barred(line);
        }
    }

    /// Stops carrying bytes, in both directions; lines stay up.
    pub(crate) fn freeze(&self) {
        self.state.frozen.store(true, Ordering::SeqCst);
    }

    /// Whether a frozen line has these bytes, on their way to either end.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        let found = |part: &[u8]| part.windows(bytes.len()).any(|window| window == bytes);
        if self
            .state
            .held
            .lock()
            .unwrap()
            .iter()
            .any(|part| found(part))
        {
            return true;
        }
        // What came later waits with the kernel.
        let mut chunk = vec![0; CHUNK_BYTES];
        let at_once = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let lines = self.state.lines.lock().unwrap();
        lines.iter().any(|line| {
            let waiting = recv(line, &mut *chunk, at_once);
            waiting.is_ok_and(|(length, _)| found(&chunk[..length]))
        })
    }

    /// From now on throws away what the server says, while the server still hears the client.
    pub(crate) fn drop_replies(&self) {
        self.state.drops_replies.store(true, Ordering::SeqCst);
    }

    /// How many bytes of replies were thrown away.
    pub(crate) fn dropped_bytes(&self) -> usize {
        self.state.dropped_bytes.load(Ordering::SeqCst)
    }

    /// All is well again. Lines that lost bytes are broken: they can never be understood again.
    pub(crate) fn heal(&self) {
        if self.state.drops_replies.swap(false, Ordering::SeqCst) {
            self.cut();
        }
        self.state.refuses.store(false, Ordering::SeqCst);
        *self.state.barred.lock().unwrap() = None;
        self.state.frozen.store(false, Ordering::SeqCst);
        self.state.held.lock().unwrap().clear();
    }
}

impl State {
    fn accept(self: &Arc<Self>, client: TcpStream) {
        if self.refuses.load(Ordering::SeqCst) {
            return;
        }
        let Ok(server) = TcpStream::connect(*self.to.lock().unwrap()) else {
            return;
        };
        let copies = (client.try_clone(), server.try_clone());
        let (Ok(client_again), Ok(server_again)) = copies else {
            return;
        };
        if let (Ok(client), Ok(server)) = (client.try_clone(), server.try_clone()) {
            self.lines.lock().unwrap().extend([client, server]);
        }
        // Looked at once it is known, so that none slips by a cut that is made meanwhile.
        if self.break_if_barred(&client) {
            return;
        }
        let (there, back) = (Arc::clone(self), Arc::clone(self));
        std::thread::spawn(move || there.carry(Way::ToServer, client, server));
        std::thread::spawn(move || back.carry(Way::ToClient, server_again, client_again));
    }

    /// The other end of a line from here to the server belongs to the server; it is broken with its pair.
    fn break_if_barred(&self, line: &TcpStream) -> bool {
        let barred = *self.barred.lock().unwrap();
        let from = line.peer_addr().ok();
        let Some((process, from)) =
            barred.zip(from.filter(|from| *from != *self.to.lock().unwrap()))
        else {
            return false;
        };
        let broken = sockets::belongs_to(process, from);
        if broken {
            let _ = line.shutdown(Shutdown::Both);
        }
        broken
    }

    fn carry(&self, way: Way, mut from: TcpStream, mut to: TcpStream) {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(length @ 1..) = from.read(&mut chunk) {
            if self.frozen.load(Ordering::SeqCst) {
                self.held.lock().unwrap().push(chunk[..length].to_vec());
            }
            while self.frozen.load(Ordering::SeqCst) {
                std::thread::sleep(THAW_POLL);
            }
            if way == Way::ToClient && self.drops_replies.load(Ordering::SeqCst) {
                self.dropped_bytes.fetch_add(length, Ordering::SeqCst);
                continue;
            }
            if to.write_all(&chunk[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
