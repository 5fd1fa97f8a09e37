/**
 * Reads winmail.dat (TNEF, MS-OXTNEF), in which Outlook and Exchange wrap the attachments of rich-text mail: the position and names of each
 * contained file, and the text of the message. Copies no file, and ignores embedded messages and rich text. It reads each byte at most once
 * and stops at the first invalid structure; what was found before is kept.
 */
export interface TnefFile {
  name: string;
  contentType: string;
  contentId: string | null;
  /** Offset of its bytes within the winmail.dat. */
  offset: number;
  length: number;
}

export interface Tnef {
  files: TnefFile[];
  text: string | null;
  html: string | null;
  /** It also contains a message, or its end is missing: the winmail.dat has more than what was read. */
  isPartial: boolean;
}

const SIGNATURE = 0x223e9f78;
const HEADER_BYTES = 6;
/** Level, id, length, and checksum of an attribute. */
const ATTRIBUTE_BYTES = 11;
const MOST_FILES = 500;
const MOST_PROPERTIES = 2_000;
const MOST_TEXT_BYTES = 256 * 1024;

/** Attributes (MS-OXTNEF §2.1.3.4). */
const ATTRIBUTE = {
  body: 0x0002800c,
  codePage: 0x00069007,
  messageProperties: 0x00069003,
  newAttachment: 0x00069002,
  attachmentTitle: 0x00018010,
  attachmentData: 0x0006800f,
  attachmentProperties: 0x00069005,
};
/** Properties (MS-OXPROPS), without their types. */
const PROPERTY = {
  body: 0x1000,
  html: 0x1013,
  data: 0x3701,
  displayName: 0x3001,
  fileName: 0x3704,
  method: 0x3705,
  longFileName: 0x3707,
  mimeType: 0x370e,
  contentId: 0x3712,
};
/** PR_ATTACH_METHOD of an embedded message or OLE object. */
const METHOD_MESSAGE = 5;
const METHOD_OLE = 6;

const TYPE = { string8: 0x1e, unicode: 0x1f, object: 0x0d, binary: 0x102, multiple: 0x1000 };
/** Size of a value by its type, padded to four bytes; other types have a length field. */
const FIXED_BYTES = new Map([
  ...[0x02, 0x03, 0x04, 0x0a, 0x0b].map((type): [number, number] => [type, 4]),
  ...[0x05, 0x06, 0x07, 0x14, 0x40].map((type): [number, number] => [type, 8]),
  [0x48, 16],
  [0x01, 0],
]);
const VARIABLE = new Set([TYPE.string8, TYPE.unicode, TYPE.object, TYPE.binary]);

/** TextDecoder's names for Windows code pages. */
const CODE_PAGES = new Map([
  [874, 'windows-874'],
  [932, 'shift_jis'],
  [936, 'gbk'],
  [949, 'euc-kr'],
  [950, 'big5'],
  [1200, 'utf-16le'],
  [20866, 'koi8-r'],
  [21866, 'koi8-u'],
  [65001, 'utf-8'],
]);

/** A value by its position; numbers are read when needed. */
interface Value {
  type: number;
  from: number;
  to: number;
}

type Properties = Map<number, Value>;

interface Attachment {
  title: string;
  data: { from: number; to: number } | undefined;
  properties: Properties;
}

export function isTnef(bytes: Buffer): boolean {
  return bytes.length >= HEADER_BYTES && bytes.readUInt32LE(0) === SIGNATURE;
}

/** Returns undefined if the bytes are not TNEF. */
export function readTnef(bytes: Buffer): Tnef | undefined {
  if (!isTnef(bytes)) return undefined;
  const attachments: Attachment[] = [];
  let message: Properties = new Map();
  let body: { from: number; to: number } | undefined;
  let codePage = 1252;
  let at = HEADER_BYTES;
  while (at + ATTRIBUTE_BYTES <= bytes.length && attachments.length <= MOST_FILES) {
    const [id, length] = [bytes.readUInt32LE(at + 1), bytes.readUInt32LE(at + 5)];
    const [from, to] = [at + 9, at + 9 + length];
    if (to + 2 > bytes.length) break;
    const current = attachments.at(-1);
    if (id === ATTRIBUTE.codePage && length >= 4) codePage = bytes.readUInt32LE(from);
    else if (id === ATTRIBUTE.body) body = { from, to };
    else if (id === ATTRIBUTE.messageProperties) message = propertiesOf(bytes, from, to);
    else if (id === ATTRIBUTE.newAttachment) attachments.push({ title: '', data: undefined, properties: new Map() });
    else if (current && id === ATTRIBUTE.attachmentTitle) current.title = decoded(bytes.subarray(from, to), codePage);
    else if (current && id === ATTRIBUTE.attachmentData) current.data = { from, to };
    else if (current && id === ATTRIBUTE.attachmentProperties) current.properties = propertiesOf(bytes, from, to);
    at = to + 2;
  }
  const files = attachments.slice(0, MOST_FILES).flatMap((one) => fileOf(bytes, one, codePage) ?? []);
  const text = textOf(bytes, message.get(PROPERTY.body), codePage);
  return {
    files,
    text:
      text ??
      (body ? decoded(bytes.subarray(body.from, Math.min(body.to, body.from + MOST_TEXT_BYTES)), codePage) : null),
    html: textOf(bytes, message.get(PROPERTY.html), codePage),
    isPartial: at < bytes.length || files.length < attachments.length,
  };
}

/** Reads the properties of a message or an attachment (MS-OXTNEF §2.1.3.4.2); only the first of several values. */
function propertiesOf(bytes: Buffer, start: number, end: number): Properties {
  const properties: Properties = new Map();
  let at = start + 4;
  const count = at <= end ? Math.min(bytes.readUInt32LE(start), MOST_PROPERTIES) : 0;
  for (let index = 0; index < count && at + 4 <= end; index += 1) {
    const [written, id] = [bytes.readUInt16LE(at), bytes.readUInt16LE(at + 2)];
    at = id >= 0x8000 ? afterName(bytes, at + 4, end) : at + 4;
    const type = written & ~TYPE.multiple;
    const isVariable = VARIABLE.has(type);
    const fixed = FIXED_BYTES.get(type);
    if (!isVariable && fixed === undefined) break;
    const hasCount = isVariable || written !== type;
    if (hasCount && at + 4 > end) break;
    const values = hasCount ? bytes.readUInt32LE(at) : 1;
    at += hasCount ? 4 : 0;
    for (let value = 0; value < values; value += 1) {
      if (isVariable && at + 4 > end) return properties;
      const length = isVariable ? bytes.readUInt32LE(at) : fixed!;
      const from = at + (isVariable ? 4 : 0);
      const next = from + Math.ceil(length / 4) * 4;
      // A value without bytes would let a count of billions loop in place.
      if (next > end || next === at) return properties;
      if (value === 0) properties.set(id, { type, from, to: from + length });
      at = next;
    }
  }
  return properties;
}

/** Returns the index after the name of a named property. */
function afterName(bytes: Buffer, at: number, end: number): number {
  if (at + 24 > end) return end;
  const isNumber = bytes.readUInt32LE(at + 16) === 0;
  return isNumber ? at + 24 : at + 24 + Math.ceil(bytes.readUInt32LE(at + 20) / 4) * 4;
}

function fileOf(bytes: Buffer, { title, data, properties }: Attachment, codePage: number): TnefFile | undefined {
  const string = (id: number): string => textOf(bytes, properties.get(id), codePage)?.trim() ?? '';
  const method = properties.get(PROPERTY.method);
  const kind = method && method.to - method.from >= 4 ? bytes.readInt32LE(method.from) : 0;
  if (kind === METHOD_MESSAGE || kind === METHOD_OLE) return undefined;
  const place = data ?? properties.get(PROPERTY.data);
  if (!place) return undefined;
  return {
    name: string(PROPERTY.longFileName) || string(PROPERTY.fileName) || title.trim() || string(PROPERTY.displayName),
    contentType: string(PROPERTY.mimeType).toLowerCase(),
    contentId: string(PROPERTY.contentId).replace(/^<|>$/g, '').slice(0, 200) || null,
    offset: place.from,
    length: place.to - place.from,
  };
}

/** Returns null if the value is not text. */
function textOf(bytes: Buffer, value: Value | undefined, codePage: number): string | null {
  if (!value) return null;
  const content = bytes.subarray(value.from, Math.min(value.to, value.from + MOST_TEXT_BYTES));
  if (value.type === TYPE.unicode) return withoutEnd(new TextDecoder('utf-16le').decode(content));
  return value.type === TYPE.string8 || value.type === TYPE.binary ? decoded(content, codePage) : null;
}

function decoded(content: Buffer, codePage: number): string {
  const isWindows = codePage >= 1250 && codePage <= 1258;
  const label = isWindows ? `windows-${codePage}` : (CODE_PAGES.get(codePage) ?? 'windows-1252');
  return withoutEnd(new TextDecoder(label).decode(content));
}

/** Strings end with a zero. */
function withoutEnd(text: string): string {
  const end = text.indexOf('\0');
  return end === -1 ? text : text.slice(0, end);
}
