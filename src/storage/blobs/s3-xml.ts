/**
 * The little XML that S3 speaks: errors, listings and the outcome of multipart uploads. Reads elements by their names
 * where they are known not to be nested in themselves; nothing of it is ever trusted to be more than text.
 */

const ENTITIES: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };

function unescaped(text: string): string {
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]+));/gi, (whole, hex, decimal, name) => {
    if (name !== undefined) return ENTITIES[name.toLowerCase()] ?? whole;
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

/** The inside of every element of this name, as it stands in the document. */
export function xmlElements(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}(?:\\s[^>]*)?>([\\s\\S]*?)</${name}>`, 'g'))].map((found) => found[1]!);
}

/** The text of the first element of this name. */
export function xmlText(xml: string, name: string): string | undefined {
  const found = new RegExp(`<${name}(?:\\s[^>]*)?>([^<]*)</${name}>`).exec(xml)?.[1];
  return found === undefined ? undefined : unescaped(found);
}

export function escapeXml(text: string): string {
  return text.replace(/[<>&"']/g, (one) => `&#${one.charCodeAt(0)};`);
}
