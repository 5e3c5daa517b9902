//! Source: the bytes of a trace, decompressed if its first bytes show a known compression.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;

use crate::error::LabError;

const BUFFER_BYTES: usize = 256 << 10;
/// Bytes used to detect a format.
const PEEK_BYTES: u64 = 4096;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const XZ_MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A file that counts the bytes read from it.
struct Counted {
    file: File,
    count: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The bytes of a trace.
pub(super) struct Source {
    inner: Box<dyn BufRead>,
    /// The first bytes, to detect the format; reading returns them too.
    start: Vec<u8>,
    count: Arc<AtomicU64>,
}

impl Source {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Source, LabError> {
        let refuse =
            |error: io::Error| LabError::ReadFile { path: path.display().to_string(), message: error.to_string() };
        let file = File::open(path).map_err(refuse)?;
        let count = Arc::new(AtomicU64::new(0));
        let mut raw = BufReader::with_capacity(BUFFER_BYTES, Counted { file, count: Arc::clone(&count) });
        let start = raw.fill_buf().map_err(refuse)?;
        let mut inner: Box<dyn BufRead> = if start.starts_with(&ZSTD_MAGIC) {
            let decoder = zstd::Decoder::with_buffer(raw).map_err(refuse)?;
            Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder))
        } else if start.starts_with(&GZIP_MAGIC) {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(raw)))
        } else if start.starts_with(&XZ_MAGIC) {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, XzDecoder::new_multi_decoder(raw)))
        } else {
            Box::new(raw)
        };
        let mut begin = Vec::new();
        inner.by_ref().take(PEEK_BYTES).read_to_end(&mut begin).map_err(refuse)?;
        let inner = Box::new(Cursor::new(begin.clone()).chain(inner));
        Ok(Source { inner, start: begin, count })
    }

    /// The first bytes of the content; they are still to be read.
    pub(super) fn start(&self) -> &[u8] {
        &self.start
    }

    /// Bytes of the file read so far, before decompression.
    pub(super) fn bytes_read(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer)
    }
}

impl BufRead for Source {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.inner.consume(amount);
    }
}
