//! The authority that stock gRPC clients name over a Unix socket.
//!
//! There is no host behind a file, and clients differ in what they say instead: `localhost` (Go, Node), the path of the socket with
//! percent escapes (Python, Ruby, PHP, C++, Swift), or the path as it is (Java). The HTTP library takes only what could be a host,
//! and resets all other streams before anybody else sees them; it has no setting for that. Nobody here asks for the authority.
//!
//! So on this socket alone, what could not stand in a host is replaced by `-` while it is read, byte by byte: all lengths stay, and so
//! the tables of headers on both sides stay in step (RFC 7541). Strings in the Huffman code are left as they are.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use super::listen::HTTP2_GREETING;

/// The header, by its name and by its place in the table that never changes.
const NAME: &[u8] = b":authority";
const INDEX: u32 = 1;

const FRAME_HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
const PRIORITY_BYTES: usize = 5;

/// A connection whose requests name an authority that could be a host.
pub(super) struct AnyAuthority {
    stream: UnixStream,
    reader: Reader,
}

impl AnyAuthority {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            reader: Reader::default(),
        }
    }
}

impl AsyncRead for AnyAuthority {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(new) = buffer.filled_mut().get_mut(before..) {
            new.iter_mut().for_each(|byte| self.reader.read(byte));
        }
        read
    }
}

impl AsyncWrite for AnyAuthority {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Follows what a client sends, byte by byte.
#[derive(Debug, Default)]
struct Reader {
    at: At,
    field: Field,
}

/// Where the next byte is.
#[derive(Clone, Copy, Debug)]
enum At {
    /// In the greeting, of which so much was read.
    Greeting(usize),
    /// In the head of a frame, of which so much was read.
    Head([u8; FRAME_HEAD_BYTES], usize),
    Frame(Frame),
    /// In what is not HTTP/2, or not as it should be. The HTTP library says so.
    Elsewhere,
}

/// What is still to come of a frame.
#[derive(Clone, Copy, Debug)]
struct Frame {
    left: usize,
    has_fields: bool,
    /// It begins with the length of the padding at its end.
    padded: bool,
    padding: usize,
    /// How much comes before its fields.
    before: usize,
}

/// Where in a header field the next byte is.
#[derive(Clone, Copy, Debug, Default)]
enum Field {
    #[default]
    Begins,
    /// In a number: what it is so far, and by how much the next part is shifted.
    Number(u32, u32, Then),
    BeforeName,
    /// In a name: how much of it is left, and how much of the one that is looked for it is so far.
    Name(u32, Option<usize>),
    BeforeValue(Of),
    Value(u32, Of),
}

/// What a number is.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// A field that is in a table, or the size of one: nothing belongs to it.
    Whole,
    /// The place of a name in a table; 0, if it is spelled out.
    Index,
    NameLength(Of),
    ValueLength(Of),
}

/// What a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// To the authority, or maybe to it, as it stands here.
    Authority,
    Other,
}

impl Default for At {
    fn default() -> Self {
        Self::Greeting(0)
    }
}

impl Reader {
    fn read(&mut self, byte: &mut u8) {
        self.at = match self.at {
            At::Greeting(count) if HTTP2_GREETING.get(count) == Some(byte) => {
                if count + 1 == HTTP2_GREETING.len() {
                    At::Head([0; FRAME_HEAD_BYTES], 0)
                } else {
                    At::Greeting(count + 1)
                }
            }
            At::Head(mut head, count) => {
                if let Some(place) = head.get_mut(count) {
                    *place = *byte;
                }
                if count + 1 == FRAME_HEAD_BYTES {
                    self.begun(head)
                } else {
                    At::Head(head, count + 1)
                }
            }
            At::Frame(frame) => self.within(frame, byte).unwrap_or(At::Elsewhere),
            At::Greeting(_) | At::Elsewhere => At::Elsewhere,
        }
    }

    fn begun(&mut self, [a, b, c, kind, flags, ..]: [u8; FRAME_HEAD_BYTES]) -> At {
        let is = |flag: u8| kind == HEADERS && flags & flag != 0;
        if kind == HEADERS {
            self.field = Field::Begins;
        }
        let frame = Frame {
            left: usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX),
            has_fields: matches!(kind, HEADERS | CONTINUATION),
            padded: is(PADDED),
            padding: 0,
            before: if is(PRIORITY) { PRIORITY_BYTES } else { 0 },
        };
        next(frame)
    }

    fn within(&mut self, mut frame: Frame, byte: &mut u8) -> Option<At> {
        if frame.padded {
            frame.padded = false;
            frame.padding = usize::from(*byte);
        } else if frame.before > 0 {
            frame.before -= 1;
        } else if frame.has_fields && frame.left > frame.padding {
            self.field = self.field.after(byte)?;
        }
        frame.left -= 1;
        Some(next(frame))
    }
}

fn next(frame: Frame) -> At {
    if frame.left == 0 {
        At::Head([0; FRAME_HEAD_BYTES], 0)
    } else {
        At::Frame(frame)
    }
}

impl Field {
    /// Where the byte leads, which may be changed. `None`: it is no header field.
    fn after(self, byte: &mut u8) -> Option<Self> {
        let first = *byte;
        // A text in the Huffman code says so in its first bit.
        let plain = |of| if first & 0x80 == 0 { of } else { Of::Other };
        Some(match self {
            Self::Begins if first & 0x80 != 0 => number(first, 0x7f, Then::Whole),
            Self::Begins if first & 0x40 != 0 => number(first, 0x3f, Then::Index),
            Self::Begins if first & 0x20 != 0 => number(first, 0x1f, Then::Whole),
            Self::Begins => number(first, 0x0f, Then::Index),
            Self::Number(so_far, shift, then) => {
                let part = u32::from(first & 0x7f).checked_shl(shift)?;
                let so_far = so_far.checked_add(part)?;
                if first & 0x80 == 0 {
                    then.with(so_far)
                } else {
                    Self::Number(so_far, shift + 7, then)
                }
            }
            Self::BeforeName => number(first, 0x7f, Then::NameLength(plain(Of::Authority))),
            Self::Name(left, same) => {
                let same = same.filter(|count| NAME.get(*count) == Some(&first));
                let same = same.map(|count| count + 1);
                match left - 1 {
                    0 if same == Some(NAME.len()) => Self::BeforeValue(Of::Authority),
                    0 => Self::BeforeValue(Of::Other),
                    left => Self::Name(left, same),
                }
            }
            Self::BeforeValue(of) => number(first, 0x7f, Then::ValueLength(plain(of))),
            Self::Value(left, of) => {
                if of == Of::Authority && !may_be_in_a_host(first) {
                    *byte = b'-';
                }
                match left - 1 {
                    0 => Self::Begins,
                    left => Self::Value(left, of),
                }
            }
        })
    }
}

impl Then {
    fn with(self, number: u32) -> Field {
        match (self, number) {
            (Self::Whole, _) | (Self::ValueLength(_), 0) => Field::Begins,
            (Self::Index, 0) => Field::BeforeName,
            (Self::Index, INDEX) => Field::BeforeValue(Of::Authority),
            (Self::Index, _) | (Self::NameLength(_), 0) => Field::BeforeValue(Of::Other),
            (Self::NameLength(Of::Authority), length) => Field::Name(length, Some(0)),
            (Self::NameLength(Of::Other), length) => Field::Name(length, None),
            (Self::ValueLength(of), length) => Field::Value(length, of),
        }
    }
}

/// A number that begins in these bits of a byte, and goes on if all of them are set.
fn number(byte: u8, bits: u8, then: Then) -> Field {
    let begun = u32::from(byte & bits);
    if byte & bits == bits {
        Field::Number(begun, 0, then)
    } else {
        then.with(begun)
    }
}

/// What a host may be made of, be it a name or an address, and a port.
fn may_be_in_a_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// What is made of the frames behind a greeting.
    fn read(frames: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = [HTTP2_GREETING, &frames.concat()].concat();
        let mut reader = Reader::default();
        bytes.iter_mut().for_each(|byte| reader.read(byte));
        bytes.split_off(HTTP2_GREETING.len())
    }

    /// A field that is spelled out.
    fn field(name: &str, value: &str) -> Vec<u8> {
        let length = |text: &str| u8::try_from(text.len()).unwrap();
        [
            &[0x40, length(name)],
            name.as_bytes(),
            &[length(value)],
            value.as_bytes(),
        ]
        .concat()
    }

    #[test]
    fn a_path_becomes_a_host_of_the_same_length_wherever_it_stands_and_nothing_else_changes() {
        let settings = frame(4, 0, b"\0\x03\0%/%\0");
        let data = frame(0, 1, b"\x41\x0a:authority%2F");
        let other = field("x-path", "/a%2Fb");
        let fields =
            |value: &str| [other.clone(), field(":authority", value), other.clone()].concat();
        let by_index = |value: &[u8]| [b"\x83\x01\x06", value, b"\x86"].concat();
        let (path, host) = (fields("/tmp/a%2Fb"), fields("-tmp-a-2Fb"));
        let of_length = |bytes: usize, byte: &str| {
            // A length in two bytes: 127, and the rest.
            let rest = u8::try_from(bytes - 127).unwrap();
            let value = byte.repeat(bytes);
            [b"\x41\x7f", &[rest][..], value.as_bytes()].concat()
        };
        for (sent, made) in [
            (frame(1, 4, &path), frame(1, 4, &host)),
            (
                frame(1, 4, &by_index(b"%2Ftmp")),
                frame(1, 4, &by_index(b"-2Ftmp")),
            ),
            (
                frame(1, 4, &of_length(200, "/")),
                frame(1, 4, &of_length(200, "-")),
            ),
            // With a priority, and padded by 3.
            (
                frame(1, 0x2c, &[b"\x03%/%/%", &path[..], b"///"].concat()),
                frame(1, 0x2c, &[b"\x03%/%/%", &host[..], b"///"].concat()),
            ),
            // In two frames, broken at any place.
            (
                [frame(1, 0, &path[..30]), frame(9, 4, &path[30..])].concat(),
                [frame(1, 0, &host[..30]), frame(9, 4, &host[30..])].concat(),
            ),
        ] {
            let around = |it: Vec<u8>| [settings.clone(), it, data.clone()];
            assert_eq!(read(&around(sent)), around(made).concat());
        }
    }

    #[test]
    fn what_is_a_host_and_what_is_no_http2_stay_as_they_are() {
        for host in ["localhost", "127.0.0.1:7411", "[::1]:80", ""] {
            let sent = frame(1, 4, &field(":authority", host));
            assert_eq!(read(std::slice::from_ref(&sent)), sent);
        }
        // In the Huffman code.
        let sent = frame(1, 4, b"\x41\x83%/%");
        assert_eq!(read(std::slice::from_ref(&sent)), sent);
        let mut http1 = b"POST /a%2Fb HTTP/1.1\r\nhost: %2F\r\n\r\n".to_vec();
        let before = http1.clone();
        let mut reader = Reader::default();
        http1.iter_mut().for_each(|byte| reader.read(byte));
        assert_eq!(http1, before);
    }

    #[test]
    fn whatever_comes_it_is_read_to_its_end() {
        let mut seed = 1_u32;
        for _ in 0..2_000 {
            let mut reader = Reader::default();
            let noise = (0..64).map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                seed.to_be_bytes()[0]
            });
            let noise: Vec<u8> = noise.collect();
            let frames = [&frame(1, noise[0], &noise)[..], &noise].concat();
            let mut bytes = [HTTP2_GREETING, &frames].concat();
            bytes.iter_mut().for_each(|byte| reader.read(byte));
        }
    }
}
