/**
 * A header block as its fields, by their places in the text: nothing is copied, so that what is kept stays as it is. The text is
 * the block read as Latin-1, one character a byte, with CRLF line ends and without the empty line. Lines that are no
 * field are answered too, for the reader to refuse or to leave alone.
 */

export interface HeaderField {
  /** In lower case; empty for lines that are no field. */
  name: string;
  start: number;
  /** Index of the colon; -1 for lines that are no field. */
  colon: number;
  /** Behind the CRLF of its last line. */
  end: number;
}

/** Visible ASCII without the colon (RFC 5322 §3.6.8). */
const NAME = /^[!-9;-~]+$/;

function isFolded(text: string, at: number): boolean {
  const next = text.charCodeAt(at);
  return next === 0x20 || next === 9;
}

/** The fields in their order; stops behind `atMost` of them. */
export function headerFields(text: string, atMost: number = Number.POSITIVE_INFINITY): HeaderField[] {
  const fields: HeaderField[] = [];
  for (let start = 0; start < text.length && fields.length < atMost; ) {
    const lineEnd = text.indexOf('\r\n', start);
    let end = lineEnd < 0 ? text.length : lineEnd + 2;
    const firstEnd = end;
    while (end < text.length && isFolded(text, end)) {
      const next = text.indexOf('\r\n', end);
      end = next < 0 ? text.length : next + 2;
    }
    const line = text.slice(start, firstEnd);
    const colon = line.indexOf(':');
    const name = colon > 0 ? line.slice(0, colon) : '';
    const isField = name !== '' && NAME.test(name);
    fields.push({ name: isField ? name.toLowerCase() : '', start, colon: isField ? start + colon : -1, end });
    start = end;
  }
  return fields;
}

/** The value without its folds (RFC 5322 §2.2.3) and without the white space around it. */
export function fieldValue(text: string, field: HeaderField): string {
  const raw = text.slice(field.colon + 1, field.end);
  return (raw.indexOf('\r\n') < raw.length - 2 ? raw.replaceAll('\r\n', '') : raw).replace(
    /^[ \t\r\n]+|[ \t\r\n]+$/g,
    '',
  );
}
