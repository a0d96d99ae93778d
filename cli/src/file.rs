//! A file on disk as a [`Source`]. It seeks and reads, so a large file is never loaded as a whole.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufReader, Read as _};
use std::path::{Component, Path, PathBuf};

use highwater_core::{Error, ErrorKind, Source, say};

/// A file, and where it was read last; structure lies in short runs, so that reads are buffered.
#[derive(Debug)]
pub(crate) struct FileSource {
    reader: BufReader<File>,
    len: u64,
    position: u64,
    /// Where files lie that belong to it.
    folder: Option<PathBuf>,
}

impl FileSource {
    /// Opens a [regular file](regular).
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let (file, len) = regular(path)?;
        Ok(Self { reader: BufReader::new(file), len, position: 0, folder: None })
    }

    /// The same with the small files next to it that belong to it. Whoever asks has started this process, and may read
    /// them.
    pub(crate) fn with_parts(path: &Path) -> Result<Self, Error> {
        let folder = path.parent().map(Path::to_owned);
        Ok(Self { folder, ..Self::open(path)? })
    }

    /// The whole text; `None` where there are more than `most` bytes.
    pub(crate) fn text(&mut self, most: u64) -> Result<Option<String>, Error> {
        let Some(len) = usize::try_from(self.len).ok().filter(|_| self.len <= most) else {
            return Ok(None);
        };
        let mut bytes = vec![0; len];
        self.read_at(0, &mut bytes)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let forward = i64::try_from(i128::from(offset) - i128::from(self.position))
            .map_err(io::Error::other)?;
        self.reader.seek_relative(forward)?;
        self.position = offset;
        self.reader.read_exact(buffer)?;
        self.position += u64::try_from(buffer.len()).map_err(io::Error::other)?;
        Ok(())
    }
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.read(offset, buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Error::new(ErrorKind::Corrupt, say!("the file ends before byte {offset}", offset))
            }
            _ => unreadable(&error),
        })
    }

    fn read_next_to(&mut self, name: &str, offset: u64, buffer: &mut [u8]) -> bool {
        let mut parts = Path::new(name).components();
        let is_plain = matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none();
        let path = self.folder.as_ref().filter(|_| is_plain).map(|folder| folder.join(name));
        let file = path.and_then(|path| Self::open(&path).ok());
        file.is_some_and(|mut file| file.read_at(offset, buffer).is_ok())
    }
}

/// Opens a regular file, and returns its size in bytes.
///
/// A pipe, a device or a socket is refused at once: opening one may wait for ever, or do something. It is looked at
/// before it is opened. As another may have its name by then, it is opened without waiting, and looked at again.
///
/// # Errors
/// It is no regular file, or cannot be opened.
pub(crate) fn regular(path: &Path) -> Result<(File, u64), Error> {
    check(&fs::metadata(path).map_err(|error| unreadable(&error))?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    without_waiting(&mut options);
    let file = options.open(path).map_err(|error| unreadable(&error))?;
    let metadata = file.metadata().map_err(|error| unreadable(&error))?;
    check(&metadata)?;
    Ok((file, metadata.len()))
}

fn check(metadata: &Metadata) -> Result<(), Error> {
    let message = if metadata.is_dir() {
        say!("this is a folder; name the model in it")
    } else if metadata.is_file() {
        return Ok(());
    } else {
        say!("this is no regular file; save the model to one, as it is not read in order")
    };
    Err(Error::new(ErrorKind::WrongFormat, message))
}

#[cfg(unix)]
fn without_waiting(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;

    // Regular files are read as ever. A terminal does not become that of this process.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    options.custom_flags(flags.bits().cast_signed());
}

#[cfg(not(unix))]
fn without_waiting(_: &mut OpenOptions) {}

fn unreadable(error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, say!("cannot read: {error}", error))
}
