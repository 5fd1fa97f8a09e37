/**
 * Parses the tag lists of DKIM signatures, ARC seals, and key records (RFC 6376 §3.2), such as `v=1; a=rsa-sha256`. Names are
 * case-sensitive. Takes time linear in the text.
 */
import { trimmed } from '../base/trim.ts';

export interface TagList {
  /** Values without surrounding white space; a run of white space inside is one space. Of a repeated tag, the last value. */
  tags: ReadonlyMap<string, string>;
  /** The first deviation from the syntax, which makes the entire list invalid. */
  error: string | undefined;
  /** The first tag that is in the list twice. */
  duplicate: string | undefined;
}

const NAME = /^[A-Za-z][A-Za-z0-9_]*$/;
const WHITE_SPACE = /[ \t\r\n]+/g;

const isWhiteSpace = (code: number): boolean => code === 32 || code === 9 || code === 13 || code === 10;

export function parseTagList(text: string): TagList {
  const tags = new Map<string, string>();
  let error: string | undefined;
  let duplicate: string | undefined;
  const specs = text.split(';').map((spec) => trimmed(spec, isWhiteSpace));
  for (const [index, spec] of specs.entries()) {
    if (spec === '') {
      // One semicolon can follow the last tag.
      if (index < specs.length - 1 || specs.length === 1) error ??= 'empty tag';
      continue;
    }
    const equals = spec.indexOf('=');
    const name = trimmed(spec.slice(0, Math.max(0, equals)), isWhiteSpace);
    if (!NAME.test(name)) {
      error ??= 'invalid tag name';
      continue;
    }
    if (tags.has(name)) duplicate ??= name;
    tags.set(name, trimmed(spec.slice(equals + 1), isWhiteSpace).replace(WHITE_SPACE, ' '));
  }
  if (duplicate !== undefined) error ??= `duplicate tag ${duplicate}`;
  return { tags, error, duplicate };
}

/** Returns a value without its white space, which has no meaning in Base64 and in lists. */
export function withoutSpaces(value: string): string {
  return value.replaceAll(' ', '');
}

/** Returns the items of a list that is separated by colons, in lower case. */
export function listItems(value: string): string[] {
  return withoutSpaces(value)
    .toLowerCase()
    .split(':')
    .filter((item) => item !== '');
}
