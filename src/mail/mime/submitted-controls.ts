/**
 * Control fields of submitted mail, which are instructions to the service and are removed: tags, metadata, tracking, the idempotency key,
 * and the sandbox outcome. The limits are those of POST /send. An invalid value refuses the mail with the accepted form, because a silently
 * dropped value would be noticed too late.
 *
 *   X-Postrider-Tag: welcome, invoice          repeated or with commas; at most 10
 *   X-Postrider-Metadata-Order: 17             the name as written after the prefix; at most 20
 *   X-Postrider-Track: opens, clicks           or one of them, or none
 *   Idempotency-Key: 1 to 255 printable ASCII characters
 *   Resend-Idempotency-Key: another name of Idempotency-Key, which clients of Resend use
 *   X-Sandbox-Outcome: checked by the sandbox, not here
 */

import { hasForbiddenControl } from '../compose/header.ts';
import { decodeWords } from './header-fields.ts';
import { malformed, quote, type SubmissionRefusal } from './submitted-refusal.ts';

export interface ControlHeaders {
  tags: string[];
  metadata: Record<string, string>;
  track: { opens: boolean; clicks: boolean };
  idempotencyKey: string | undefined;
  sandboxOutcome: string | undefined;
}

/** A control field in the mail. */
export interface ControlField {
  /** As written. */
  name: string;
  /** Unfolded and decoded. */
  value: string;
}

const MAX_TAGS = 10;
const MAX_METADATA = 20;
const MAX_METADATA_NAME_LENGTH = 255;
const MAX_METADATA_VALUE_LENGTH = 10_000;
const TAG = /^[A-Za-z0-9_-]{1,64}$/;
const KEY = /^[\x20-\x7e]{1,255}$/;
const METADATA = 'x-postrider-metadata-';

const IDEMPOTENCY_KEYS = new Set(['idempotency-key', 'resend-idempotency-key']);
const OTHERS = new Set([...IDEMPOTENCY_KEYS, 'x-sandbox-outcome']);

/** Returns whether the field is a control field, by its lower-case name; X-Postrider- fields with unknown names are, and have no effect. */
export function isControl(name: string): boolean {
  return name.startsWith('x-postrider-') || OTHERS.has(name);
}

interface Reading {
  tags: string[];
  metadata: [name: string, value: string][];
  metadataNames: Set<string>;
  track: string[] | undefined;
  idempotencyKey: string | undefined;
  sandboxOutcome: string | undefined;
}

function items(value: string): string[] {
  return value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

function readTags(value: string, reading: Reading): string | undefined {
  const tags = items(value);
  const bad = tags.find((tag) => !TAG.test(tag));
  if (bad !== undefined) {
    return `X-Postrider-Tag: ${quote(bad)} is not valid; a tag is 1 to 64 characters of A-Z, a-z, 0-9, _ and -; separate tags with commas`;
  }
  reading.tags.push(...tags);
  return reading.tags.length > MAX_TAGS
    ? `X-Postrider-Tag has ${reading.tags.length} tags; at most ${MAX_TAGS} are accepted`
    : undefined;
}

function readMetadata(field: ControlField, reading: Reading): string | undefined {
  const name = field.name.slice(METADATA.length);
  const shown = quote(field.name);
  if (name === '' || name.length > MAX_METADATA_NAME_LENGTH) {
    return `${shown} must have a name of 1 to ${MAX_METADATA_NAME_LENGTH} characters after X-Postrider-Metadata-`;
  }
  if (reading.metadataNames.has(name.toLowerCase())) return `${shown} occurs more than once; send it once`;
  const value = decodeWords(field.value);
  if (hasForbiddenControl(value))
    return `${shown} has a line break or another control character in its value; remove it`;
  if (value.length > MAX_METADATA_VALUE_LENGTH) {
    return `${shown} has a value of more than ${MAX_METADATA_VALUE_LENGTH} characters; shorten it`;
  }
  reading.metadataNames.add(name.toLowerCase());
  reading.metadata.push([name, value]);
  return reading.metadata.length > MAX_METADATA
    ? `the header has more than ${MAX_METADATA} X-Postrider-Metadata- fields; remove some`
    : undefined;
}

function readTrack(value: string, reading: Reading): string | undefined {
  const words = items(value).map((word) => word.toLowerCase());
  const known =
    words.every((word) => word === 'opens' || word === 'clicks') || (words.length === 1 && words[0] === 'none');
  if (!known || words.length === 0) {
    return `X-Postrider-Track: ${quote(value)} is not valid; use opens, clicks, "opens, clicks", or none`;
  }
  if (reading.track !== undefined) return 'X-Postrider-Track occurs more than once; send it once';
  reading.track = words;
  return undefined;
}

function readOne(field: ControlField, reading: Reading): string | undefined {
  const lower = field.name.toLowerCase();
  if (lower === 'x-postrider-tag') return readTags(field.value, reading);
  if (lower === 'x-postrider-track') return readTrack(field.value, reading);
  if (lower.startsWith(METADATA)) return readMetadata(field, reading);
  if (IDEMPOTENCY_KEYS.has(lower)) {
    const name = lower === 'idempotency-key' ? 'Idempotency-Key' : 'Resend-Idempotency-Key';
    if (reading.idempotencyKey !== undefined) return 'the idempotency key occurs more than once; send it once';
    if (!KEY.test(field.value)) return `${name} must be 1 to 255 printable ASCII characters`;
    reading.idempotencyKey = field.value;
  } else if (lower === 'x-sandbox-outcome') {
    if (reading.sandboxOutcome !== undefined) return 'X-Sandbox-Outcome occurs more than once; send it once';
    reading.sandboxOutcome = field.value;
  }
  return undefined;
}

const NONE: readonly ControlField[] = [];

/** Reads the control fields of one mail, in order. */
export function readControls(
  fields: readonly ControlField[] = NONE,
): { ok: true; controls: ControlHeaders } | { ok: false; refusal: SubmissionRefusal } {
  const reading: Reading = {
    tags: [],
    metadata: [],
    metadataNames: new Set(),
    track: undefined,
    idempotencyKey: undefined,
    sandboxOutcome: undefined,
  };
  for (const field of fields) {
    const issue = readOne(field, reading);
    if (issue !== undefined) return { ok: false, refusal: malformed(issue) };
  }
  const track = {
    opens: reading.track?.includes('opens') ?? false,
    clicks: reading.track?.includes('clicks') ?? false,
  };
  const { tags, metadata, idempotencyKey, sandboxOutcome } = reading;
  return {
    ok: true,
    controls: { tags, metadata: Object.fromEntries(metadata), track, idempotencyKey, sandboxOutcome },
  };
}
