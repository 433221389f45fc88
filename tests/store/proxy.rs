//! A TCP proxy in front of etcd that can fall silent or cut its connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Forward,
    /// Connections are accepted and kept, and nothing passes.
    Silent,
}

pub(crate) struct Proxy {
    pub(crate) url: String,
    mode: watch::Sender<Mode>,
    /// Connections of an earlier generation are cut.
    generation: watch::Sender<u64>,
    accepted: Arc<AtomicUsize>,
}

impl Proxy {
    /// Forwards to an address such as `http://127.0.0.1:2379`.
    pub(crate) async fn start(to: &str) -> Self {
        let to = to.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mode = watch::Sender::new(Mode::Forward);
        let generation = watch::Sender::new(0);
        let accepted = Arc::new(AtomicUsize::new(0));
        let (modes, generations) = (mode.subscribe(), generation.subscribe());
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let (to, modes, generations) = (to.clone(), modes.clone(), generations.clone());
                tokio::spawn(forward(connection, to, modes, generations));
            }
        });
        Self {
            url,
            mode,
            generation,
            accepted,
        }
    }

    pub(crate) fn fall_silent(&self) {
        self.mode.send_replace(Mode::Silent);
    }

    /// Bytes pass again on lines that carried none when it fell silent.
    pub(crate) fn speak(&self) {
        self.mode.send_replace(Mode::Forward);
    }

    pub(crate) fn cut_all(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// How many connections were made.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

async fn forward(
    mut connection: TcpStream,
    to: String,
    mut modes: watch::Receiver<Mode>,
    mut generations: watch::Receiver<u64>,
) {
    generations.mark_unchanged();
    let Ok(mut server) = TcpStream::connect(to).await else {
        return;
    };
    loop {
        tokio::select! {
            _ = generations.changed() => return,
            _ = modes.wait_for(|mode| *mode == Mode::Silent) => {}
            _ = tokio::io::copy_bidirectional(&mut connection, &mut server) => return,
        }
        tokio::select! {
            _ = generations.changed() => return,
            speaks = modes.wait_for(|mode| *mode == Mode::Forward) => if speaks.is_err() { return },
        }
    }
}
