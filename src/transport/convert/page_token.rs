//! Tokens that lead from one page of a list to the next. They carry where the page ended, and a checksum that ties them to
//! their own list: behind the same place another list would leave some out unseen.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::refused;
use crate::engine::Fault;

/// Entries in a page, if the caller does not say.
const PAGE_SIZE_DEFAULT: usize = 50;
/// Most entries in a page.
const PAGE_SIZE_MAX: usize = 200;
/// Longest page token, in bytes.
pub(super) const PAGE_TOKEN_BYTES_MAX: usize = 512;
/// The checksum that a page token begins with, in bytes.
const CHECKSUM_BYTES: usize = 4;

/// Reads how many entries a page may have.
pub(super) fn size(asked: i32) -> Result<usize, Fault> {
    match usize::try_from(asked) {
        Ok(0) => Ok(PAGE_SIZE_DEFAULT),
        Ok(asked) => Ok(asked.min(PAGE_SIZE_MAX)),
        Err(_) => Err(refused(
            "page_size",
            format!("is {asked}; it must not be negative"),
        )),
    }
}

/// Writes a token: the page of this list ended with this.
pub(super) fn token_of(list: &[u8], last: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode([&checksum(list, last)[..], last].concat())
}

/// Reads where the page before ended. `None`: it is the first that is asked for.
pub(super) fn last_of(list: &[u8], token: &str) -> Result<Option<Vec<u8>>, Fault> {
    if token.is_empty() {
        return Ok(None);
    }
    let last = opened(list, token).ok_or_else(|| {
        refused(
            "page_token",
            "is not the next_page_token of an earlier page of the same list",
        )
    });
    last.map(Some)
}

fn opened(list: &[u8], token: &str) -> Option<Vec<u8>> {
    if token.len() > PAGE_TOKEN_BYTES_MAX {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (sum, last) = bytes.split_first_chunk::<CHECKSUM_BYTES>()?;
    (*sum == checksum(list, last)).then(|| last.to_vec())
}

fn checksum(list: &[u8], last: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hash = crc32fast::Hasher::new();
    hash.update(list);
    hash.update(&[0]);
    hash.update(last);
    hash.finalize().to_be_bytes()
}
