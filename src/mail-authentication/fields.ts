/**
 * The header fields of a message as verifiers see them. Text that is not a field belongs to the field above it, because some email clients
 * read it like that: a signature of that field then does not verify. A name can be separated from its colon by a fold (RFC 5322 §4.5.8).
 */
import { relaxedValue } from '../mail/dkim-canonicalization.ts';

/** A field as Latin-1, one character per byte. */
export interface Field {
  /** In lower case; empty for text above the first field. */
  name: string;
  /** As written, with folds, without the last CRLF. */
  text: string;
  /** Index of the colon in `text`; -1 without a name. */
  colon: number;
}

/** Visible ASCII without the colon (RFC 5322 §3.6.8). */
const FIELD_START = /^([!-9;-~]+)[ \t]*:/;
const NAME_ALONE = /^([!-9;-~]+)[ \t]*$/;
const COLON_NEXT = /^[ \t]+:/;

/** Parses a header block with CRLF line ends. Takes time linear in the text. */
export function parseFields(header: string): Field[] {
  const lines = header.split('\r\n');
  while (lines.at(-1) === '') lines.pop();
  const starts: { name: string; line: number }[] = [];
  for (const [line, text] of lines.entries()) {
    const start =
      FIELD_START.exec(text) ?? (COLON_NEXT.test(lines[line + 1] ?? '') ? NAME_ALONE.exec(text) : undefined);
    if (start) starts.push({ name: start[1]!.toLowerCase(), line });
    else if (line === 0) starts.push({ name: '', line });
  }
  return starts.map(({ name, line }, index) => {
    const text = lines.slice(line, starts[index + 1]?.line).join('\r\n');
    return { name, text, colon: name === '' ? -1 : text.indexOf(':') };
  });
}

/** Returns the value, decoded as UTF-8, with its folds. */
export function textOf(field: Field): string {
  return Buffer.from(field.text.slice(field.colon + 1), 'latin1').toString();
}

/** Returns the relaxed form of a field (RFC 6376 §3.4.2) without a line end. */
export function relaxedField({ name, text, colon }: Field): string {
  return `${name}:${relaxedValue(text.slice(colon + 1))}`;
}

/** Returns a signature field with the value of its `b=` tag removed (RFC 6376 §3.7). */
export function withoutSignature(field: Field): Field {
  const specs = field.text.slice(field.colon + 1).split(';');
  const at = specs.findLastIndex((spec) => /^[ \t\r\n]*b[ \t\r\n]*=/.test(spec));
  if (at >= 0) specs[at] = specs[at]!.slice(0, specs[at]!.indexOf('=') + 1);
  return { ...field, text: field.text.slice(0, field.colon + 1) + specs.join(';') };
}
