//! Accepted sockets, counted to the byte.

use futures_util::stream::{self, Stream};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::transport::server::Connected;

use asgc_core::server::FrameBytes;

/// After an error of `accept`, such as no free file descriptors: trying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes received and sent.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    uplink: AtomicU64,
    downlink: AtomicU64,
}

impl Traffic {
    pub(crate) fn read(&self) -> FrameBytes {
        FrameBytes {
            uplink: self.uplink.load(Ordering::Relaxed),
            downlink: self.downlink.load(Ordering::Relaxed),
        }
    }
}

/// What a request knows of its connection.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) traffic: Arc<Traffic>,
}

/// A socket that counts, for itself and for the sum of all.
pub(crate) struct Counted {
    socket: TcpStream,
    connection: Connection,
    all: Arc<Traffic>,
    _place: OwnedSemaphorePermit,
}

/// The sockets of `listener`, at most `limit` at a time: the next one waits in the kernel's queue.
pub(crate) fn incoming(
    listener: TcpListener,
    all: Arc<Traffic>,
    limit: usize,
) -> impl Stream<Item = io::Result<Counted>> {
    let places = Arc::new(Semaphore::new(limit));
    stream::unfold((listener, all, places), |(listener, all, places)| async {
        // The semaphore is never closed, so this fails only if that changes; then there is nothing to accept.
        let place = Arc::clone(&places).acquire_owned().await.ok()?;
        let socket = accept(&listener).await;
        let connection = Connection {
            peer: socket.peer_addr().ok(),
            traffic: Arc::default(),
        };
        let counted = Counted {
            socket,
            connection,
            all: Arc::clone(&all),
            _place: place,
        };
        Some((Ok(counted), (listener, all, places)))
    })
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                // Verdicts are small and must not wait for more to send.
                if let Err(error) = socket.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY");
                }
                return socket;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Counted {
    fn received(&self, bytes: usize) {
        self.connection
            .traffic
            .uplink
            .fetch_add(bytes as u64, Ordering::Relaxed);
        self.all.uplink.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn sent(&self, bytes: usize) {
        self.connection
            .traffic
            .downlink
            .fetch_add(bytes as u64, Ordering::Relaxed);
        self.all.downlink.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Connected for Counted {
    type ConnectInfo = Connection;

    fn connect_info(&self) -> Connection {
        self.connection.clone()
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        self.received(buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let bytes = ready!(Pin::new(&mut self.socket).poll_write(cx, buf))?;
        self.sent(bytes);
        Poll::Ready(Ok(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = ready!(Pin::new(&mut self.socket).poll_write_vectored(cx, bufs))?;
        self.sent(bytes);
        Poll::Ready(Ok(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
