//! Echoes, in each of the ways that a program may.

use std::io;

use bytes::Bytes;
use tcptailor_tokio::base::Rng;
use tcptailor_tokio::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

pub(crate) async fn serve(listener: TcpListener, seed: u64) {
    let mut rng = Rng::new(seed, "server");
    let mut echoes = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("packets move");
        let way = rng.below(4);
        echoes.spawn(async move {
            // A client may break its connection.
            let _ = match way {
                0 => by_chunks(stream).await,
                1 => by_readiness(stream).await,
                2 => by_halves(stream).await,
                _ => by_copying(stream).await,
            };
        });
        while let Some(echo) = echoes.try_join_next() {
            echo.expect("no panic");
        }
    }
}

async fn by_copying(mut stream: TcpStream) -> io::Result<()> {
    let (mut reads, mut writes) = stream.split();
    tokio::io::copy(&mut reads, &mut writes).await?;
    writes.shutdown().await
}

async fn by_chunks(mut stream: TcpStream) -> io::Result<()> {
    loop {
        let mut chunk = stream.read_chunk(50_000).await?;
        if chunk.is_empty() {
            return stream.shutdown().await;
        }
        while !chunk.is_empty() {
            stream.write_chunk(&mut chunk).await?;
        }
    }
}

async fn by_readiness(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 30_000];
    loop {
        stream.readable().await?;
        let read = match stream.try_read(&mut buffer) {
            Ok(0) => return stream.shutdown().await,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        let mut written = 0;
        while written < read {
            stream.writable().await?;
            match stream.try_write(&buffer[written..read]) {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Two tasks with something between them.
async fn by_halves(stream: TcpStream) -> io::Result<()> {
    let (mut reads, mut writes) = stream.into_split();
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<Bytes>(2);
    let writer = tokio::spawn(async move {
        while let Some(mut bytes) = receiver.recv().await {
            writes.write_all_buf(&mut bytes).await?;
        }
        // Dropping the half ends the stream.
        Ok::<_, io::Error>(())
    });
    loop {
        let mut buffer = vec![0; 20_000];
        let read = reads.read(&mut buffer).await?;
        buffer.truncate(read);
        if read == 0 || sender.send(buffer.into()).await.is_err() {
            break;
        }
    }
    drop(sender);
    writer.await?
}
