//! A TCP proxy in user space: connections to an address behind a TUN device go on to a server on
//! kernel sockets.
//!
//! ```sh
//! cargo run --release -p tcptailor-tokio --example proxy -- \
//!     --tun proxy0 --addr 10.78.0.2/24 --listen 8080 --to 127.0.0.1:8080
//! curl http://10.78.0.2:8080/
//! ```
//!
//! Without `--listen` and `--to` it is transparent: whatever is routed into the device goes on to
//! where it was meant to go. Its own connections must not be routed there; move the device to a
//! network namespace of the clients (`ip link set proxy0 netns NAME`).
//!
//! It makes the device, switches it on, and gives the machine the first address of that network
//! (the second where the first is the proxy's own). The device goes when the program ends.

use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::BytesMut;
use clap::Parser;
use linux::netlink::{addr, link};
use tcptailor_tokio::stack::{HostConfig, profile};
use tcptailor_tokio::{Net, TcpListener, TcpStream, Tun, random_secret, random_seed};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Most bytes that are read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// A TCP proxy in user space, from a TUN device to a server on kernel sockets.
#[derive(Parser)]
struct Args {
    /// The TUN device to make.
    #[arg(long, default_value = "proxy0")]
    tun: String,
    /// Address of the proxy behind the device, with the length of its network's prefix.
    #[arg(long, default_value = "10.78.0.2/24")]
    addr: String,
    /// Port of the proxy.
    #[arg(long, requires = "to")]
    listen: Option<u16>,
    /// Where connections go on to.
    #[arg(long, requires = "listen")]
    to: Option<SocketAddr>,
    /// MTU of the device in bytes.
    #[arg(long, default_value_t = 1500)]
    mtu: u16,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let (ip, prefix) = args
        .addr
        .split_once('/')
        .ok_or("--addr: ADDRESS/LENGTH, such as 10.78.0.2/24")?;
    let (ip, prefix): (IpAddr, u8) = (ip.parse()?, prefix.parse()?);
    let tun = Tun::create(&args.tun)?;
    link::set_mtu(&args.tun, args.mtu.into())?;
    link::set_up(&args.tun)?;
    addr::add(&args.tun, machine_address(ip, prefix), prefix)?;

    let mut config = HostConfig::of(&profile::linux_6_18(), ip, random_seed()?);
    config.mtu = args.mtu;
    config.secret = Some(random_secret()?);
    config.system.any_address = args.listen.is_none();
    let net = Net::over_tun(config, tun)?;
    let everything: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let at = args.listen.map_or((everything, 0), |port| (ip, port));
    let listener = TcpListener::bind(&net, at).await?;
    println!("ready");
    loop {
        let (stream, peer) = listener.accept().await?;
        let to = args.to.map_or_else(|| stream.local_addr(), Ok)?;
        tokio::spawn(async move {
            if let Err(error) = forward(stream, to).await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

/// The first address of the network that is not `ip`.
fn machine_address(ip: IpAddr, prefix: u8) -> IpAddr {
    let first_but = |own: u128, network: u128| match network + 1 {
        first if first == own => first + 1,
        first => first,
    };
    match ip {
        IpAddr::V4(ip) => {
            let bits = u32::from(ip);
            let hosts = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
            let address = first_but(bits.into(), (bits & !hosts).into());
            IpAddr::V4((address as u32).into())
        }
        IpAddr::V6(ip) => {
            let bits = u128::from(ip);
            let hosts = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
            IpAddr::V6(first_but(bits, bits & !hosts).into())
        }
    }
}

/// Both directions of one connection, each until its end. Where one breaks, so does the other: the
/// peer behind it sees a reset, not the end of a stream that was cut.
async fn forward(ours: TcpStream, to: SocketAddr) -> io::Result<()> {
    ours.set_nodelay(true)?;
    let connected = tokio::net::TcpStream::connect(to).await;
    if connected.is_err() {
        ours.set_zero_linger()?;
    }
    let kernels = connected?;
    kernels.set_nodelay(true)?;
    let (reads, mut writes) = ours.into_split();
    let (mut kernel_reads, mut kernel_writes) = kernels.into_split();
    let there = async {
        loop {
            let chunk = reads.read_chunk(CHUNK_BYTES).await?;
            if chunk.is_empty() {
                return kernel_writes.shutdown().await;
            }
            kernel_writes.write_all(&chunk).await?;
        }
    };
    let back = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(CHUNK_BYTES);
            if kernel_reads.read_buf(&mut buffer).await? == 0 {
                return writes.shutdown().await;
            }
            let mut chunk = buffer.split().freeze();
            while !chunk.is_empty() {
                writes.write_chunk(&mut chunk).await?;
            }
        }
    };
    let forwarded = tokio::try_join!(there, back);
    if forwarded.is_err() {
        writes.forget();
        kernel_writes.forget();
        reads.set_zero_linger()?;
        kernel_reads.as_ref().set_zero_linger()?;
    }
    forwarded.map(drop)
}
