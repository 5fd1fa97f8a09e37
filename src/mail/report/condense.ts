/**
 * Reduces a report to what its readers need while it streams in: the headers, the text for people, the parts for machines and the
 * header of the returned message. The returned content is dropped, wherever it is. What remains is a valid MIME message of at most
 * CONDENSED_BYTES, so a report of any size takes the memory and disk of a small one. A report that returns no content and has short texts
 * comes out unchanged.
 *
 * Each kind of content has its own limit: a large part never uses up the space of the parts after it.
 */
import { type Entity, isIdentity, MimeWalk } from '../mime/mime-walk.ts';

/** Maximum depth of nested multiparts. */
export const MAX_DEPTH = 10;
export const MAX_PARTS = 200;

/** A part for machines: RFC 3464, RFC 6533, RFC 5965, RFC 8098. */
const FOR_MACHINES = /^message\/(?:(?:global-)?delivery-status|feedback-report|(?:global-)?disposition-notification)$/;
/** A part with the returned message, or its header. */
export const ORIGINAL_PARTS =
  /^(?:message\/(?:rfc822|global|global-headers|rfc822-headers|partial)|text\/rfc822(?:-headers?)?)$/;
/** A multipart without a usable boundary is read as text. */
const FOR_PEOPLE = /^(?:text|multipart)\//;

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

/** Limit of one part for people: a long one leaves space for the next. */
const TEXT_PART_BYTES = 64_000;

/** Includes the line ends that are added before delimiters. */
export const CONDENSED_BYTES = Object.values(LIMITS).reduce((sum, bytes) => sum + bytes, 0) + 2 * (MAX_PARTS + 2);

/** A header line is read up to here; the rest of it does not affect the structure. */
const MAX_HEADER_LINE = 16_384;
/** A longer header ends the reading. */
const MAX_HEADER_READ = 1_000_000;
/** A boundary has at most 70 characters (RFC 2046 §5.1.1). */
const MAX_DELIMITER_LINE = 1_000;
/** Maximum number of bytes of folded lines that are copied at once. */
const MAX_FOLDED = 65_536;
const LF = 10;
const SPACE = 32;
const TAB = 9;
const DASH = 45;
const NOTHING = Buffer.alloc(0);
const LINE_END = Buffer.from('\r\n');
/** The line end, and the first two characters of what may be a delimiter. */
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
  /** Bytes that the current part may still have. */
  #leftOfPart = Number.POSITIVE_INFINITY;
  /** Set while the header of a part with the returned message is read. */
  #originalHeader: HeaderEnd | undefined;
  /** The start of a line whose rest decides its kind. */
  #carried = NOTHING;
  #isAtLineStart = true;
  /** In a header line that is too long to be held: the rest of it is only copied. */
  #isInLongLine = false;
  #isLineEnded = true;
  /** No more can be kept. */
  #isDone = false;
  #offset = 0;
  /** Where the current header or body starts. */
  #regionStart = 0;

  /** `emit` receives pieces of the report in order. They share the memory of the chunks written. */
  constructor(emit: (piece: Buffer) => void) {
    this.#emit = emit;
    this.#walk.begin(0);
  }

  /** Reads the next bytes of the report, split anywhere. */
  write(chunk: Buffer): void {
    if (this.#isDone) return;
    const bytes = this.#carried.length === 0 ? chunk : Buffer.concat([this.#carried, chunk]);
    this.#carried = NOTHING;
    let at = 0;
    while (at < bytes.length && !this.#isDone) {
      const next = this.#isInLongLine
        ? this.#longLine(bytes, at)
        : this.#walk.isInHeader
          ? this.#headerLine(bytes, at)
          : this.#bodyLines(bytes, at);
      if (next === undefined) {
        this.#carried = Buffer.from(bytes.subarray(at));
        return;
      }
      this.#offset += next - at;
      at = next;
    }
  }

  /** Ends the report; held bytes are part of it. */
  end(): void {
    if (this.#carried.length > 0) this.write(LINE_END);
  }

  /** Returns where the next line starts; undefined if the line is not complete yet. */
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

  /** Copies folded lines that do not affect the structure, without decoding each. */
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

  /** Reads the lines up to the next possible delimiter, or that line. */
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
    const isDashCarried = bytes.at(-1) === DASH && bytes.at(-2) === LF && bytes.length - at > 1;
    return this.#content(bytes, at, isDashCarried ? bytes.length - 1 : bytes.length);
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

  /** Called when the kind of the content changes. */
  #beginRegion(): void {
    this.#isAtLineStart = true;
    this.#regionStart = this.#offset;
    const entity = this.#walk.entities.at(-1)!;
    this.#kind = this.#walk.isInHeader ? 'structure' : kindOf(entity);
    this.#leftOfPart = this.#kind === 'text' ? TEXT_PART_BYTES : Number.POSITIVE_INFINITY;
    this.#originalHeader = this.#kind === 'original' && isIdentity(entity.encoding) ? new HeaderEnd() : undefined;
  }

  /** Copies a line that is needed to parse the rest. */
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

  /** Returns how many bytes were kept. */
  #copy(piece: Buffer, kind: Kind, most: number): number {
    const kept = piece.subarray(0, Math.min(this.#left[kind], most));
    if (kept.length === 0) return 0;
    this.#left[kind] -= kept.length;
    this.#isLineEnded = kept.at(-1) === LF;
    this.#emit(kept);
    return kept.length;
  }
}

/** The kind of the body of the last entity. */
function kindOf({ kind, type, bodyEnd }: Entity): Kind {
  // A delimiter ended it: the epilogue of a multipart follows.
  if (bodyEnd !== Number.POSITIVE_INFINITY) return 'dropped';
  if (FOR_MACHINES.test(type)) return 'machine';
  if (ORIGINAL_PARTS.test(type)) return 'original';
  return kind === 'multipart' || FOR_PEOPLE.test(type) ? 'text' : 'other';
}

/** The same for a report that is in memory. */
export function condensed(report: Buffer): Buffer {
  const pieces: Buffer[] = [];
  const condenser = new ReportCondenser((piece) => pieces.push(piece));
  condenser.write(report);
  condenser.end();
  return Buffer.concat(pieces);
}
