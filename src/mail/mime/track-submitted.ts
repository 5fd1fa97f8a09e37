/**
 * Tracking in mail that was composed elsewhere: the html parts get the links and the picture of track-html.ts, in their own
 * charset and transfer encoding, and every other byte of the mail stays as it was submitted. The mail is read once, whatever the
 * number of its copies; each is linear in its bytes.
 *
 * Left as it is: mail that is signed or encrypted (multipart/signed, multipart/encrypted, S/MIME), mails inside the mail, html that is a
 * file (Content-Disposition), parts with a digest (Content-MD5), and parts whose charset or encoding cannot be read for certain. A part
 * whose lines would become longer than 998 bytes becomes quoted-printable, or Base64 where that is clearly shorter, and its
 * Content-Transfer-Encoding says so.
 */

import { type MarkupView, viewMarkup } from '../html/markup-view.ts';
import { type HtmlTracking, readTrackable, type TrackableHtml, trackingEdits } from '../html/track-html.ts';
import { type ByteEdit, type CodedBody, readCodedBody } from './coded-body.ts';
import { parameterisedValue, parameterValue } from './content-type-field.ts';
import { fieldValue, type HeaderField, headerFields } from './header-fields.ts';
import { type Entity, walkThrough } from './mime-walk.ts';

export interface TrackableMail {
  /** Links that may be tracked, in all parts. */
  links: number;
  /** The mail with this tracking; the submitted bytes themselves where nothing is to be changed. */
  copy(tracking: HtmlTracking): Buffer;
}

interface HtmlPart {
  entity: Entity;
  /** Where the body ends; without the line end that ends the mail. */
  bodyEnd: number;
  body: CodedBody;
  html: MarkupView;
  found: TrackableHtml;
}

/** What submission takes. */
const LIMITS = { depth: 100, parts: 1000 };
const SEALED = new Set([
  'multipart/signed',
  'multipart/encrypted',
  'application/pkcs7-mime',
  'application/x-pkcs7-mime',
]);

/** Reads a whole mail, with CRLF line ends; `links` tells whether they are wanted. Undefined: nothing in it can be tracked. */
export function readTrackableMail(content: Buffer, { links }: { links: boolean }): TrackableMail | undefined {
  const walk = walkThrough(content.toString('latin1'), LIMITS);
  const entities = walk.entities.filter((entity) => !isInsideMessage(entity));
  if (walk.exceeded !== undefined || entities.some(({ type }) => SEALED.has(type))) return undefined;
  const parts = entities.flatMap((entity) => htmlPartOf(content, entity, links) ?? []);
  if (parts.length === 0) return undefined;
  return {
    links: parts.reduce((sum, part) => sum + part.found.links.length, 0),
    copy: (tracking) => trackedCopy(content, parts, tracking),
  };
}

function isInsideMessage(entity: Entity): boolean {
  for (let parent = entity.parent; parent; parent = parent.parent) if (parent.kind === 'message') return true;
  return false;
}

function htmlPartOf(content: Buffer, entity: Entity, links: boolean): HtmlPart | undefined {
  if (entity.kind !== 'leaf' || entity.type !== 'text/html') return undefined;
  const header = content.toString('latin1', entity.headerStart, entity.bodyStart);
  const fields = headerFields(header);
  const value = (name: string): string => {
    const field = fields.find((one) => one.name === name);
    return field === undefined ? '' : fieldValue(header, field);
  };
  const disposition = parameterisedValue(value('content-disposition'));
  const isFile = disposition.main === 'attachment' || parameterValue(disposition.parameters, 'filename') !== undefined;
  if (isFile || fields.some((one) => one.name === 'content-md5')) return undefined;

  let { bodyEnd } = entity;
  // A picture behind the line end that ends the mail would be a line without one.
  if (bodyEnd === content.length && content.toString('latin1', bodyEnd - 2) === '\r\n') bodyEnd -= 2;
  if (bodyEnd < entity.bodyStart) return undefined;
  const body = readCodedBody(content.subarray(entity.bodyStart, bodyEnd), entity.encoding);
  if (body === undefined) return undefined;
  const charset = parameterValue(parameterisedValue(value('content-type')).parameters, 'charset') ?? '';
  const html = viewMarkup(body.bytes, charset);
  if (html === undefined) return undefined;
  return { entity, bodyEnd, body, html, found: readTrackable(html.text, { links, written: html.written }) };
}

function trackedCopy(content: Buffer, parts: readonly HtmlPart[], tracking: HtmlTracking): Buffer {
  const pieces: Buffer[] = [];
  let at = 0;
  for (const { entity, bodyEnd, body, html, found } of parts) {
    const edits: ByteEdit[] = trackingEdits(found, tracking).map(({ start, end, text }) => ({
      start: start * html.unitBytes,
      end: end * html.unitBytes,
      bytes: html.encode(text),
    }));
    if (edits.length === 0) continue;
    const edited = body.edited(edits);
    if (edited.encoding === undefined) pieces.push(content.subarray(at, entity.bodyStart));
    else {
      const header = content.subarray(entity.headerStart, entity.bodyStart);
      pieces.push(content.subarray(at, entity.headerStart), withEncoding(header, edited.encoding, entity));
    }
    pieces.push(edited.body);
    at = bodyEnd;
  }
  if (pieces.length === 0) return content;
  pieces.push(content.subarray(at));
  return Buffer.concat(pieces);
}

/** The header of a part (with its empty line) with another transfer encoding, its other fields as they are. */
function withEncoding(header: Buffer, encoding: string, entity: Entity): Buffer {
  const text = header.toString('latin1');
  const fields = headerFields(text.slice(0, -2));
  const line = `Content-Transfer-Encoding: ${encoding}\r\n`;
  const named = fields.filter((field) => field.name === 'content-transfer-encoding');
  let out = '';
  let at = 0;
  for (const field of named) {
    out += text.slice(at, field.start) + (field === named[0] ? line : '');
    at = field.end;
  }
  const end = text.length - 2;
  out += text.slice(at, end);
  if (named.length === 0) out += line;
  // Without it readers need not look at the encoding (RFC 2045 §4).
  if (entity.parent === undefined && !has(fields, 'mime-version')) out += 'MIME-Version: 1.0\r\n';
  return Buffer.from(out + text.slice(end), 'latin1');
}

function has(fields: readonly HeaderField[], name: string): boolean {
  return fields.some((field) => field.name === name);
}
