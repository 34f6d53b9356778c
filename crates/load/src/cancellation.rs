use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use socket2::Socket;

/// Ends blocked connections from another thread: reads and writes under way on them return at once.
///
/// Once fired it stays so; connections that are opened later are cut too.
#[derive(Debug, Default)]
pub struct Cancellation {
    cancelled: AtomicBool,
    sockets: Mutex<Vec<Weak<Socket>>>,
}

impl Cancellation {
    /// A cancellation that has not fired and knows no connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cuts all connections.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        for socket in self.sockets.lock().drain(..) {
            if let Some(socket) = socket.upgrade() {
                // A socket that the peer has closed already is not connected: nothing is left to do.
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
    }

    /// Whether it was fired.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    pub(crate) fn watch(&self, socket: &Arc<Socket>) {
        let mut sockets = self.sockets.lock();
        if sockets.len() == sockets.capacity() {
            sockets.retain(|socket| socket.strong_count() > 0);
        }
        sockets.push(Arc::downgrade(socket));
        drop(sockets);
        if self.is_cancelled() {
            self.cancel();
        }
    }
}
