/** XML documents of the Query protocol of AWS: responses and errors of version 1 of the SES API. */
const NAMESPACE = 'http://ses.amazonaws.com/doc/2010-12-01/';

/** Text; an object of elements; or a list, whose entries become `member` elements. */
export type XmlValue =
  | string
  | number
  | boolean
  | readonly XmlValue[]
  | { readonly [name: string]: XmlValue | undefined };

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
};

/** Escapes text; characters that XML 1.0 does not allow become question marks. */
function escapeText(text: string): string {
  return text
    .toWellFormed()
    .replace(/[^\t\n\r\x20-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu, '?')
    .replace(/[&<>"']/g, (character) => ENTITIES[character]!);
}

function isList(value: XmlValue): value is readonly XmlValue[] {
  return Array.isArray(value);
}

function xmlOf(value: XmlValue): string {
  if (isList(value)) return value.map((one) => `<member>${xmlOf(one)}</member>`).join('');
  if (typeof value !== 'object') return escapeText(String(value));
  return Object.entries(value)
    .map(([name, member]) => (member === undefined ? '' : `<${name}>${xmlOf(member)}</${name}>`))
    .join('');
}

/** Returns the response of an action. */
export function queryResponse(action: string, result: XmlValue, requestId: string): string {
  return `<${action}Response xmlns="${NAMESPACE}"><${action}Result>${xmlOf(result)}</${action}Result>${xmlOf({
    ResponseMetadata: { RequestId: requestId },
  })}</${action}Response>\n`;
}

export function queryError(error: { code: string; message: string; isSender: boolean; requestId: string }): string {
  const { code, message, isSender, requestId } = error;
  const inner = {
    Error: { Type: isSender ? 'Sender' : 'Receiver', Code: code, Message: message },
    RequestId: requestId,
  };
  return `<ErrorResponse xmlns="${NAMESPACE}">${xmlOf(inner)}</ErrorResponse>\n`;
}
