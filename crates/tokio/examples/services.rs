//! Discard (port 5001), a character generator (5002) and echo (5003) on our TCP behind a TUN
//! device: the services of `tcptailor stack serve`, as programs of tokio.
//!
//! ```sh
//! cargo run --release -p tcptailor-tokio --example services -- --tun stack0 --addr 10.77.0.2/24
//! ```
//!
//! Enable the device and give it an address of that network by other means.

use std::future::Future;
use std::io;
use std::net::IpAddr;

use bytes::Bytes;
use clap::Parser;
use tcptailor_tokio::stack::{HostConfig, profile};
use tcptailor_tokio::{Net, TcpListener, TcpStream, Tun, random_secret, random_seed};

/// Most bytes of one read or write.
const CHUNK_BYTES: usize = 256 << 10;

#[derive(Parser)]
struct Args {
    /// The TUN device to make.
    #[arg(long, default_value = "stack0")]
    tun: String,
    /// Address behind the device, with the length of its network's prefix.
    #[arg(long, default_value = "10.77.0.2/24")]
    addr: String,
    /// MTU of the device in bytes.
    #[arg(long, default_value_t = 1500)]
    mtu: u16,
    /// Threads of the runtime; 1: the one that runs `main`.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Use `AsyncRead` and `AsyncWrite`, which copy, instead of chunks.
    #[arg(long)]
    copy: bool,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let mut runtime = match args.threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(args.threads).enable_all().build()?;
    runtime.block_on(run(args))
}

async fn run(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    let addr: IpAddr = args.addr.split('/').next().unwrap_or_default().parse()?;
    let mut config = HostConfig::of(&profile::linux_6_18(), addr, random_seed()?);
    config.mtu = args.mtu;
    config.secret = Some(random_secret()?);
    let net = Net::over_tun(config, Tun::create(&args.tun)?)?;
    let at = async |port| TcpListener::bind(&net, (addr, port)).await;
    let (discards, generates, echoes) = (at(5001).await?, at(5002).await?, at(5003).await?);
    println!("ready");
    let served = if args.copy {
        tokio::join!(
            serve(discards, discard_copying),
            serve(generates, generate_copying),
            serve(echoes, echo_copying)
        )
    } else {
        tokio::join!(
            serve(discards, discard),
            serve(generates, generate),
            serve(echoes, echo)
        )
    };
    let (discards, generates, echoes) = served;
    Ok(discards.and(generates).and(echoes)?)
}

async fn serve<S>(listener: TcpListener, service: fn(TcpStream) -> S) -> io::Result<()>
where
    S: Future<Output = io::Result<()>> + Send + 'static,
{
    loop {
        let (stream, _) = listener.accept().await?;
        // A broken connection does not affect others.
        tokio::spawn(service(stream));
    }
}

async fn discard(stream: TcpStream) -> io::Result<()> {
    while !stream.read_chunk(CHUNK_BYTES).await?.is_empty() {}
    Ok(())
}

async fn generate(stream: TcpStream) -> io::Result<()> {
    let generated = Bytes::from(vec![0; CHUNK_BYTES]);
    loop {
        stream.write_chunk(&mut generated.clone()).await?;
    }
}

async fn echo(stream: TcpStream) -> io::Result<()> {
    loop {
        let mut chunk = stream.read_chunk(CHUNK_BYTES).await?;
        if chunk.is_empty() {
            return Ok(());
        }
        while !chunk.is_empty() {
            stream.write_chunk(&mut chunk).await?;
        }
    }
}

async fn discard_copying(mut stream: TcpStream) -> io::Result<()> {
    use tokio::io::AsyncReadExt as _;
    let mut buffer = vec![0; CHUNK_BYTES];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

async fn generate_copying(mut stream: TcpStream) -> io::Result<()> {
    use tokio::io::AsyncWriteExt as _;
    let generated = vec![0; CHUNK_BYTES];
    loop {
        stream.write_all(&generated).await?;
    }
}

async fn echo_copying(mut stream: TcpStream) -> io::Result<()> {
    let (mut reads, mut writes) = stream.split();
    tokio::io::copy(&mut reads, &mut writes).await.map(drop)
}
