//! Writes frames in a thread of its own, one at a time: a slow terminal makes frames rarer and nothing else slower.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use tokio::sync::Notify;

/// Where the backend puts the bytes of the frame that is being made.
#[derive(Clone, Debug, Default)]
pub(super) struct Sheet(Arc<Mutex<Vec<u8>>>);

impl Sheet {
    /// The bytes since the last time.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Sheet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// A frame is handed over whole, never a part of it.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The thread that writes, and whether it is at it.
pub(super) struct Pipe {
    frames: Option<mpsc::SyncSender<Vec<u8>>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_busy: AtomicBool,
    written: Notify,
}

impl Pipe {
    /// Starts writing to a terminal.
    pub fn to(mut terminal: impl Write + Send + 'static) -> Self {
        let (frames, waiting) = mpsc::sync_channel::<Vec<u8>>(8);
        let shared = Arc::new(Shared::default());
        let mine = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for frame in waiting {
                // A terminal that is gone takes nothing any more; the signal that says so ends the screen.
                let _ = terminal.write_all(&frame).and_then(|()| terminal.flush());
                mine.is_busy.store(false, Ordering::Release);
                mine.written.notify_one();
            }
        });
        Pipe { frames: Some(frames), shared, thread: Some(thread) }
    }

    /// True when the last frame is written: only then is another one made.
    pub fn is_ready(&self) -> bool {
        !self.shared.is_busy.load(Ordering::Acquire)
    }

    /// Waits until the frame under way is written.
    pub async fn written(&self) {
        self.shared.written.notified().await;
    }

    /// Hands bytes over.
    pub fn send(&self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        self.shared.is_busy.store(true, Ordering::Release);
        if let Some(frames) = &self.frames {
            // Only a dead thread refuses, and then nothing can be shown anyway.
            let _ = frames.try_send(bytes);
        }
    }

    /// Waits until everything is written.
    pub fn close(&mut self) {
        self.frames = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was told by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.close();
    }
}
