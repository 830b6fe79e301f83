//! What this machine's memory and loopback carry: what every other figure of a run is held against.
//!
//! Bandwidths count all bytes that move: a copy reads and writes, `y += a * x` reads two vectors and writes one. They
//! are those of one thread.

use super::process;
use anyhow::{Context as _, Result};
use asgc_lab::rate::median;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Bytes of one write to the socket.
const WRITE_BYTES: usize = 1 << 20;
/// Where writes come from: more than a cache holds, as a model is.
const SOURCE_BYTES: usize = 64 << 20;
/// Bytes that cross loopback in one measurement.
const CROSSING_BYTES: u64 = 1 << 29;

/// Bandwidths in GB/s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Roofline {
    pub(super) read_gb_s: f64,
    pub(super) copy_gb_s: f64,
    pub(super) axpy_gb_s: f64,
    pub(super) loopback_gb_s: f64,
}

/// Two vectors that passes run over.
pub(super) struct Memory {
    x: Vec<f32>,
    y: Vec<f32>,
}

impl Memory {
    pub(super) fn new(parameters: usize) -> Self {
        // Not zeros: pages that were never written to are one page.
        let x = (0..parameters).map(|i| (i % 7) as f32).collect();
        let y = (0..parameters).map(|i| (i % 5) as f32).collect();
        Self { x, y }
    }

    /// Seconds of reading one vector.
    pub(super) fn read(&self) -> f64 {
        time(|| {
            let mut lanes = [0.0f32; 64];
            let blocks = black_box(&self.x).as_chunks::<64>().0;
            for block in blocks {
                lanes.iter_mut().zip(block).for_each(|(lane, x)| *lane += x);
            }
            black_box(lanes);
        })
    }

    /// Seconds of copying one vector over the other.
    pub(super) fn copy(&mut self) -> f64 {
        time(|| {
            self.y.copy_from_slice(black_box(&self.x));
            black_box(&mut self.y);
        })
    }

    /// Seconds of `y += a * x`.
    pub(super) fn axpy(&mut self) -> f64 {
        time(|| {
            let a = black_box(-1e-3);
            self.y.iter_mut().zip(&self.x).for_each(|(y, x)| *y += a * x);
            black_box(&mut self.y);
        })
    }

    fn bytes(&self) -> f64 {
        4.0 * self.x.len() as f64
    }
}

/// Seconds that `work` takes.
pub(super) fn time(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

/// All four, each the median of `repeat`, over vectors of so many parameters.
pub(super) fn measure(parameters: usize, repeat: u32) -> Result<Roofline> {
    let mut memory = Memory::new(parameters);
    let (mut read, mut copy, mut axpy, mut loop_s) = (vec![], vec![], vec![], vec![]);
    for _ in 0..repeat.max(1) {
        // In turn, since a shared machine is fast one moment and slow the next.
        read.push(memory.read());
        copy.push(memory.copy());
        axpy.push(memory.axpy());
        loop_s.push(loopback(CROSSING_BYTES)?.seconds);
    }
    let gb_s = |bytes: f64, times: &[f64]| bytes / middle(times) / 1e9;
    let bytes = memory.bytes();
    Ok(Roofline {
        read_gb_s: gb_s(bytes, &read),
        copy_gb_s: gb_s(2.0 * bytes, &copy),
        axpy_gb_s: gb_s(3.0 * bytes, &axpy),
        loopback_gb_s: gb_s(CROSSING_BYTES as f64, &loop_s),
    })
}

/// The median, or NaN of nothing.
pub(super) fn middle(values: &[f64]) -> f64 {
    median(values).unwrap_or(f64::NAN)
}

/// Bytes that crossed loopback.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crossing {
    pub(super) seconds: f64,
    /// Of both ends.
    pub(super) cpu_s: f64,
}

/// How long `bytes` take from one thread to another over TCP, in writes of 1 MiB, with a runtime of its own at each end.
pub(super) fn loopback(bytes: u64) -> Result<Crossing> {
    let listener = StdListener::bind("127.0.0.1:0").context("cannot listen on loopback")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let sink = std::thread::spawn(move || own_runtime()?.block_on(drain(listener)));
    let took = own_runtime()?.block_on(send(address, bytes));
    let received = sink
        .join()
        .map_err(|_| anyhow::anyhow!("the reading end of loopback failed"))??;
    anyhow::ensure!(
        received == bytes,
        "loopback lost bytes: {received} of {bytes} came"
    );
    took
}

fn own_runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

async fn send(address: SocketAddr, bytes: u64) -> Result<Crossing> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let source = vec![1; SOURCE_BYTES];
    // From here on: making the source is no part of it.
    let (own, began) = (std::process::id(), Instant::now());
    let before = process::cpu_s(own)?;
    let mut blocks = source.chunks(WRITE_BYTES).cycle();
    let mut left = bytes;
    while left > 0 {
        let block = blocks.next().unwrap_or_default();
        let block = &block[..block.len().min(left as usize)];
        stream.write_all(block).await?;
        left -= block.len() as u64;
    }
    stream.shutdown().await?;
    // Closed by the other end once it has read everything.
    stream.read_u8().await.ok();
    Ok(Crossing {
        seconds: began.elapsed().as_secs_f64(),
        cpu_s: process::cpu_s(own)? - before,
    })
}

async fn drain(listener: StdListener) -> Result<u64> {
    let (mut stream, _) = TcpListener::from_std(listener)?.accept().await?;
    let mut buffer = vec![0; WRITE_BYTES];
    let mut received = 0;
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(received),
            count => received += count as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_crosses_loopback() {
        // One that is no multiple of a write.
        let crossing = loopback(3 * WRITE_BYTES as u64 + 17).unwrap();
        assert!(crossing.seconds > 0.0 && crossing.cpu_s >= 0.0);
    }

    #[test]
    fn bandwidths_are_finite_and_positive() {
        let mut memory = Memory::new(1000);
        for seconds in [memory.read(), memory.copy(), memory.axpy()] {
            assert!(seconds.is_finite() && seconds >= 0.0);
        }
        assert_eq!(memory.bytes(), 4000.0);
    }
}
