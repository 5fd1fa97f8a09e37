/**
 * Reduces a report to the parts that are evaluated, while it streams in: the headers, the human-readable text, the machine-readable parts,
 * and the header of the returned message. The content of the returned message is dropped, wherever it is. The result is a valid MIME
 * message of at most CONDENSED_BYTES, so a report of any size needs only the memory and disk space of a small one. A report without
 * returned content and with short texts is unchanged.
 *
 * Each kind of content has its own limit: a large part never uses up the space of the parts after it.
 */
import { type Entity, isIdentity, MimeWalk } from '../mime/mime-walk.ts';

/** Maximum depth of nested multiparts. */
export const MAX_DEPTH = 10;
export const MAX_PARTS = 200;

/** Machine-readable parts: RFC 3464, RFC 6533, RFC 5965, RFC 8098. */
const MACHINE_READABLE =
  /^message\/(?:(?:global-)?delivery-status|feedback-report|(?:global-)?disposition-notification)$/;
/** Parts that contain the returned message or its header. */
export const ORIGINAL_PARTS =
  /^(?:message\/(?:rfc822|global|global-headers|rfc822-headers|partial)|text\/rfc822(?:-headers?)?)$/;
/** Human-readable parts. A multipart without a usable boundary is read as text. */
const HUMAN_READABLE = /^(?:text|multipart)\//;

type Kind = 'header' | 'structure' | 'text' | 'machine' | 'original' | 'other' | 'dropped';

/** Maximum number of bytes of each kind in one report. */
const LIMITS: Readonly<Record<Kind, number>> = {
  /** Header of the report itself. */
  header: 64_000,
  /** Delimiters, and the headers of parts. */
  structure: 64_000,
  text: 128_000,
  machine: 128_000,
  original: 48_000,
  other: 8_000,
  dropped: 0,
};

/** Limit of one human-readable part: a long part leaves space for the next one. */
const TEXT_PART_BYTES = 64_000;

/** Includes the line ends that are added before delimiters. */
export const CONDENSED_BYTES = Object.values(LIMITS).reduce((sum, bytes) => sum + bytes, 0) + 2 * (MAX_PARTS + 2);

/** Length up to which a header line is parsed; the rest of the line does not affect the structure. */
const MAX_HEADER_LINE = 16_384;
/** Maximum size of a header; parsing of the report ends at a larger one. */
const MAX_HEADER_READ = 1_000_000;
/** Maximum length of a delimiter line. A boundary has at most 70 characters (RFC 2046 §5.1.1). */
const MAX_DELIMITER_LINE = 1_000;
/** Maximum number of bytes of folded lines that are copied at once. */
const MAX_FOLDED = 65_536;
const LF = 10;
const SPACE = 32;
const TAB = 9;
const DASH = 45;
const NOTHING = Buffer.alloc(0);
const LINE_END = Buffer.from('\r\n');
/** The line end and the first two characters of a possible delimiter. */
const DELIMITER_START = Buffer.from('\n--');

function lineAt(bytes: Buffer, from: number, end: number): string {
  const line = bytes.toString('latin1', from, end);
  return line.endsWith('\r') ? line.slice(0, -1) : line;
}

function isBlank(byte: number | undefined): boolean {
  return byte === SPACE || byte === TAB;
}

/** Finds the end of the header of a message inside a part: the first empty line after its first field. */
class HeaderEnd {
  #hasField = false;
  #isLineEmpty = true;

  /** Returns the number of bytes up to and including the empty line; undefined if the header continues. */
  find(bytes: Buffer): number | undefined {
    for (let i = 0; i < bytes.length; i += 1) {
      const byte = bytes[i]!;
      if (byte === LF) {
        if (this.#isLineEmpty && this.#hasField) return i + 1;
        this.#isLineEmpty = true;
      } else if (byte > 0x20) {
        this.#isLineEmpty = false;
        this.#hasField = true;
      }
    }
    return undefined;
  }
}

export class ReportCondenser {
  readonly #emit: (piece: Buffer) => void;
  readonly #walk = new MimeWalk({ depth: MAX_DEPTH, parts: MAX_PARTS, nests: () => false });
  readonly #left: Record<Kind, number> = { ...LIMITS };
  /** The kind of the following lines, until the next delimiter or the end of a header. */
  #kind: Kind = 'header';
  /** Number of bytes that can still be kept of the current part. */
  #leftOfPart = Number.POSITIVE_INFINITY;
  /** Set while the header of a part with the returned message is read. */
  #originalHeader: HeaderEnd | undefined;
  /** The start of an incomplete line. Its kind is not known until the rest arrives. */
  #buffered = NOTHING;
  #isAtLineStart = true;
  /** Whether the position is in a header line that is too long to buffer. The rest of such a line is copied unparsed. */
  #isInLongLine = false;
  #isLineEnded = true;
  /** Whether nothing more can be kept. */
  #isDone = false;
  #offset = 0;
  /** Offset at which the current header or body starts. */
  #regionStart = 0;

  /** `emit` receives the pieces of the condensed report in order. They share the memory of the chunks written. */
  constructor(emit: (piece: Buffer) => void) {
    this.#emit = emit;
    this.#walk.begin(0);
  }

  /** Reads the next bytes of the report, which can be split anywhere. */
  write(chunk: Buffer): void {
    if (this.#isDone) return;
    const bytes = this.#buffered.length === 0 ? chunk : Buffer.concat([this.#buffered, chunk]);
    this.#buffered = NOTHING;
    let at = 0;
    while (at < bytes.length && !this.#isDone) {
      const next = this.#isInLongLine
        ? this.#longLine(bytes, at)
        : this.#walk.isInHeader
          ? this.#headerLine(bytes, at)
          : this.#bodyLines(bytes, at);
      if (next === undefined) {
        this.#buffered = Buffer.from(bytes.subarray(at));
        return;
      }
      this.#offset += next - at;
      at = next;
    }
  }

  /** Ends the report. Buffered bytes are its last line. */
  end(): void {
    if (this.#buffered.length > 0) this.write(LINE_END);
  }

  /** Reads a header line. Returns the position of the next line; undefined if the line is not complete yet. */
  #headerLine(bytes: Buffer, at: number): number | undefined {
    if (this.#walk.ignoresFolded && isBlank(bytes[at])) return this.#foldedLines(bytes, at);
    const end = bytes.indexOf(LF, at);
    if (end < 0 && bytes.length - at < MAX_HEADER_LINE) return undefined;
    const next = end < 0 ? bytes.length : end + 1;
    const isDelimiter = this.#line(bytes, at, end < 0 ? at + MAX_HEADER_LINE : end, next);
    this.#isInLongLine = end < 0;
    const isHeaderEnd = !this.#walk.isInHeader;
    if (isDelimiter || isHeaderEnd) this.#structure(bytes.subarray(at, next));
    else this.#keep(bytes.subarray(at, next));
    if (isDelimiter || isHeaderEnd) this.#beginRegion();
    else if (this.#offset - this.#regionStart > MAX_HEADER_READ) this.#isDone = true;
    return next;
  }

  /** Copies folded lines that do not affect the structure, without decoding each line. */
  #foldedLines(bytes: Buffer, at: number): number {
    let next = at;
    do {
      const end = bytes.indexOf(LF, next);
      this.#isInLongLine = end < 0;
      next = end < 0 ? bytes.length : end + 1;
    } while (next - at < MAX_FOLDED && isBlank(bytes[next]));
    this.#keep(bytes.subarray(at, next));
    if (this.#offset - this.#regionStart > MAX_HEADER_READ) this.#isDone = true;
    return next;
  }

  #longLine(bytes: Buffer, at: number): number {
    const end = bytes.indexOf(LF, at);
    const next = end < 0 ? bytes.length : end + 1;
    this.#keep(bytes.subarray(at, next));
    this.#isInLongLine = end < 0;
    return next;
  }

  /** Reads the lines up to the next possible delimiter, or the delimiter itself at the start of a line. */
  #bodyLines(bytes: Buffer, at: number): number | undefined {
    if (this.#isAtLineStart && bytes[at] === DASH) {
      if (bytes.length - at < 2) return undefined;
      if (bytes[at + 1] === DASH) {
        const end = bytes.indexOf(LF, at);
        if (end < 0 && bytes.length - at < MAX_DELIMITER_LINE) return undefined;
        if (end >= 0) return this.#possibleDelimiter(bytes, at, end);
      }
    }
    const found = bytes.indexOf(DELIMITER_START, at);
    if (found >= 0) return this.#content(bytes, at, found + 1);
    const endsWithDash = bytes.at(-1) === DASH && bytes.at(-2) === LF && bytes.length - at > 1;
    return this.#content(bytes, at, endsWithDash ? bytes.length - 1 : bytes.length);
  }

  #possibleDelimiter(bytes: Buffer, at: number, end: number): number {
    if (!this.#line(bytes, at, end, end + 1)) return this.#content(bytes, at, end + 1);
    this.#structure(bytes.subarray(at, end + 1));
    this.#beginRegion();
    return end + 1;
  }

  #content(bytes: Buffer, at: number, next: number): number {
    this.#keep(bytes.subarray(at, next));
    this.#isAtLineStart = bytes[next - 1] === LF;
    return next;
  }

  #line(bytes: Buffer, at: number, end: number, next: number): boolean {
    const isDelimiter = this.#walk.line(lineAt(bytes, at, end), this.#offset, this.#offset + next - at);
    if (this.#walk.exceeded !== undefined) this.#isDone = true;
    return isDelimiter;
  }

  /** Starts a new header or body, whose content may be of another kind. */
  #beginRegion(): void {
    this.#isAtLineStart = true;
    this.#regionStart = this.#offset;
    const entity = this.#walk.entities.at(-1)!;
    this.#kind = this.#walk.isInHeader ? 'structure' : kindOf(entity);
    this.#leftOfPart = this.#kind === 'text' ? TEXT_PART_BYTES : Number.POSITIVE_INFINITY;
    this.#originalHeader = this.#kind === 'original' && isIdentity(entity.encoding) ? new HeaderEnd() : undefined;
  }

  /** Copies a line that is needed to parse the lines after it. */
  #structure(line: Buffer): void {
    if (!this.#isLineEnded) this.#emit(LINE_END);
    if (line.length > this.#left.structure) this.#isDone = true;
    else this.#copy(line, 'structure', line.length);
  }

  #keep(piece: Buffer): void {
    const kind = this.#kind;
    const end = this.#originalHeader?.find(piece);
    this.#leftOfPart -= this.#copy(end === undefined ? piece : piece.subarray(0, end), kind, this.#leftOfPart);
    if (end === undefined) return;
    this.#kind = 'dropped';
    this.#originalHeader = undefined;
  }

  /** Emits the piece up to the limits; returns the number of bytes that were kept. */
  #copy(piece: Buffer, kind: Kind, limit: number): number {
    const kept = piece.subarray(0, Math.min(this.#left[kind], limit));
    if (kept.length === 0) return 0;
    this.#left[kind] -= kept.length;
    this.#isLineEnded = kept.at(-1) === LF;
    this.#emit(kept);
    return kept.length;
  }
}

/** Returns the kind of the body of an entity. */
function kindOf({ kind, type, bodyEnd }: Entity): Kind {
  // A delimiter has ended the body, so the epilogue of a multipart follows.
  if (bodyEnd !== Number.POSITIVE_INFINITY) return 'dropped';
  if (MACHINE_READABLE.test(type)) return 'machine';
  if (ORIGINAL_PARTS.test(type)) return 'original';
  return kind === 'multipart' || HUMAN_READABLE.test(type) ? 'text' : 'other';
}

/** Condenses a report that is in memory. */
export function condensed(report: Buffer): Buffer {
  const pieces: Buffer[] = [];
  const condenser = new ReportCondenser((piece) => pieces.push(piece));
  condenser.write(report);
  condenser.end();
  return Buffer.concat(pieces);
}
