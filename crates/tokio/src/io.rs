//! Reading and writing as tokio asks for it: the same for a stream and for its halves.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use crate::stream::TcpStream;

macro_rules! reads {
    ($end:ty) => {
        impl AsyncRead for $end {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                into: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.socket.poll_read(cx, into)
            }
        }
    };
}

macro_rules! writes {
    ($end:ty) => {
        impl AsyncWrite for $end {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.socket.poll_write(cx, &[IoSlice::new(bytes)])
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                slices: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.socket.poll_write(cx, slices)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            /// Nothing waits here: what was written is the host's.
            fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.socket.shutdown())
            }
        }
    };
}

reads!(TcpStream);
reads!(ReadHalf<'_>);
reads!(OwnedReadHalf);
writes!(TcpStream);
writes!(WriteHalf<'_>);
writes!(OwnedWriteHalf);
