//! The zip: finds the program in it, and reads nothing else
//! (<https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT>).
//!
//! | written by | the program | tensors by name |
//! |---|---|---|
//! | PyTorch 2.1 to 2.6 | `serialized_exported_program.json` | a pickle: not read |
//! | 2.7 and later | `NAME/models/MODEL.json` | `NAME/data/weights/MODEL_weights_config.json` |
//! | 2.7 (first form) | `NAME/models/MODEL.json` | a pickle: not read |
//!
//! PyTorch stores without compression; archives that were packed again may be deflated.

use std::cell::RefCell;
use std::io::{self, Read as _};

use flate2::read::DeflateDecoder;
use rawzip::{CompressionMethod, ReaderAt, ZipArchive};
use serde_json::Value;

use crate::error::{Error, ErrorKind};
use crate::source::Source;

/// SIZE: bytes of a JSON file at most.
const JSON_MAX: u64 = 256 << 20;
/// COUNT: files in an archive at most.
const FILES_MAX: u64 = 1 << 20;

/// What is read of an archive.
#[derive(Debug)]
pub(super) struct Archive {
    /// The exported program.
    pub(super) program: Value,
    /// Parameters and buffers with the files that hold them, where the archive tells.
    pub(super) weights: Option<Value>,
}

/// A place of a file in the archive.
#[derive(Clone, Copy, Debug)]
struct Entry {
    wayfinder: rawzip::ZipArchiveEntryWayfinder,
    method: CompressionMethod,
    size: u64,
}

/// Finds and decodes the program of an archive; `None` where there is none, or no directory.
///
/// # Errors
/// When the archive is damaged or its JSON is.
pub(super) fn open(source: &mut dyn Source) -> Result<Option<Archive>, Error> {
    let size = source.len();
    let reader = Window(RefCell::new(source));
    let mut buffer = vec![0; rawzip::RECOMMENDED_BUFFER_SIZE];
    // Without a directory the beginning has to tell what it is.
    let Ok(zip) = rawzip::ZipLocator::new().locate_in_reader(reader, &mut buffer, size) else {
        return Ok(None);
    };
    let (mut program, mut weights) = (None, None);
    let mut entries = zip.entries(&mut buffer);
    let mut count = 0;
    while let Some(file) = entries.next_entry().map_err(|error| damaged(&error))? {
        count += 1;
        if count > FILES_MAX {
            let message =
                say!("the archive holds more than {files_max} files", files_max = FILES_MAX);
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let path = String::from_utf8_lossy(file.file_path().as_ref()).into_owned();
        let slot = if is_program(&path) {
            &mut program
        } else if path.ends_with("_weights_config.json") {
            &mut weights
        } else {
            continue;
        };
        // Further models of an archive are passed over: the first is the one that was exported.
        slot.get_or_insert((
            path,
            Entry {
                wayfinder: file.wayfinder(),
                method: file.compression_method(),
                size: file.uncompressed_size_hint(),
            },
        ));
    }
    let Some((path, entry)) = program else { return Ok(None) };
    let program = json(&zip, &path, entry)?;
    let weights = weights.map(|(path, entry)| json(&zip, &path, entry)).transpose()?;
    Ok(Some(Archive { program, weights }))
}

fn is_program(path: &str) -> bool {
    let is_model = path.rsplit_once('/').is_some_and(|(folder, file)| {
        (folder == "models" || folder.ends_with("/models")) && is_json(file)
    });
    is_model || path.rsplit('/').next() == Some("serialized_exported_program.json")
}

fn is_json(file: &str) -> bool {
    file.rsplit_once('.').is_some_and(|(_, extension)| extension.eq_ignore_ascii_case("json"))
}

/// The text of one file of any archive; `None` where there is no such file, or no directory.
///
/// # Errors
/// When the archive is damaged, or the file is no text.
pub(in crate::formats) fn text(
    source: &mut dyn Source,
    path: &str,
) -> Result<Option<String>, Error> {
    let size = source.len();
    let reader = Window(RefCell::new(source));
    let mut buffer = vec![0; rawzip::RECOMMENDED_BUFFER_SIZE];
    let Ok(zip) = rawzip::ZipLocator::new().locate_in_reader(reader, &mut buffer, size) else {
        return Ok(None);
    };
    let mut found = None;
    let mut entries = zip.entries(&mut buffer);
    let mut count = 0;
    while let Some(file) = entries.next_entry().map_err(|error| damaged(&error))? {
        count += 1;
        if count > FILES_MAX || found.is_some() {
            break;
        }
        if file.file_path().as_ref() == path.as_bytes() {
            found = Some(Entry {
                wayfinder: file.wayfinder(),
                method: file.compression_method(),
                size: file.uncompressed_size_hint(),
            });
        }
    }
    let Some(entry) = found else { return Ok(None) };
    let bytes = unpacked(&zip, path, entry)?;
    String::from_utf8(bytes).map(Some).map_err(|error| {
        Error::new(ErrorKind::Corrupt, say!("`{path}` is no text: {error}", path, error))
    })
}

/// One file of the archive, decoded.
fn json(zip: &ZipArchive<Window<'_>>, path: &str, entry: Entry) -> Result<Value, Error> {
    let bytes = unpacked(zip, path, entry)?;
    if let Ok(value) = serde_json::from_slice(&bytes) {
        return Ok(value);
    }
    serde_json::from_slice(&with_quotes(&bytes)).map_err(|error| {
        let message = say!("`{path}` is not the JSON that it should be: {error}", path, error);
        Error::new(ErrorKind::Corrupt, message)
    })
}

/// Python's `json` writes `NaN`, `Infinity` and `-Infinity`, which are no JSON: the same in quotes, as
/// later versions of PyTorch write them.
fn with_quotes(bytes: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(bytes.len());
    let (mut rest, mut is_text) = (bytes, false);
    while let Some((&byte, behind)) = rest.split_first() {
        let word: Option<&[u8]> = [&b"NaN"[..], b"Infinity", b"-Infinity"]
            .into_iter()
            .find(|word| !is_text && rest.starts_with(word));
        if let Some(word) = word {
            quoted.push(b'"');
            quoted.extend(word);
            quoted.push(b'"');
            rest = rest.get(word.len()..).unwrap_or_default();
            continue;
        }
        quoted.push(byte);
        rest = behind;
        match byte {
            b'"' => is_text = !is_text,
            // What follows belongs to the text, also if it is a quote.
            b'\\' if is_text => {
                if let Some((&escaped, behind)) = rest.split_first() {
                    quoted.push(escaped);
                    rest = behind;
                }
            }
            _ => {}
        }
    }
    quoted
}

/// The bytes of one file of the archive.
fn unpacked(zip: &ZipArchive<Window<'_>>, path: &str, entry: Entry) -> Result<Vec<u8>, Error> {
    if entry.size > JSON_MAX {
        let message = say!(
            "`{path}` has {size} bytes, more than {json_max}",
            path,
            size = entry.size,
            json_max = JSON_MAX
        );
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    let file = zip.get_entry(entry.wayfinder).map_err(|error| damaged(&error))?;
    let unpacked: &mut dyn io::Read = match entry.method {
        CompressionMethod::STORE => &mut file.reader(),
        CompressionMethod::DEFLATE => &mut DeflateDecoder::new(file.reader()),
        _ => {
            return Err(Error::new(
                ErrorKind::Corrupt,
                say!("`{path}` is packed in a way that is not supported; store it instead", path),
            ));
        }
    };
    let mut bytes = Vec::new();
    // PyTorch can be told to leave the checksum out.
    let read = unpacked.take(JSON_MAX).read_to_end(&mut bytes);
    read.map_err(|error| {
        Error::new(ErrorKind::Corrupt, say!("`{path}` cannot be unpacked: {error}", path, error))
    })?;
    Ok(bytes)
}

fn damaged(error: &rawzip::Error) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        say!("the zip archive is damaged: {error}", error = error.to_string()),
    )
}

/// A source as the zip reader wants it.
struct Window<'s>(RefCell<&'s mut dyn Source>);

impl ReaderAt for Window<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut source = self.0.borrow_mut();
        let left = source.len().saturating_sub(offset);
        let count = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let Some(part) = buffer.get_mut(..count) else { return Ok(0) };
        source.read_at(offset, part).map_err(io::Error::other)?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_numbers_are_quoted() {
        for (text, expected) in [
            ("[NaN, -Infinity, Infinity, 1]", r#"["NaN", "-Infinity", "Infinity", 1]"#),
            (r#"{"NaN": "a \" Infinity"}"#, r#"{"NaN": "a \" Infinity"}"#),
        ] {
            assert_eq!(String::from_utf8_lossy(&with_quotes(text.as_bytes())), expected);
        }
    }
}
