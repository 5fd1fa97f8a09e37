/**
 * Decodes `format=flowed` text (RFC 3676): joins paragraphs whose lines end in a space, also within quotes, and removes the space that
 * protects the start of a line. Takes time linear in the text.
 */

/** `delSp` is the parameter of that name: the space at the end of a line belongs to the format, not to the text. */
export function unflowed(text: string, { delSp }: { delSp: boolean }): string {
  const lineEnd = text.includes('\r\n') ? '\r\n' : '\n';
  const paragraphs: string[] = [];
  let pieces: string[] = [];
  let depth = 0;
  const end = (): void => {
    if (pieces.length > 0) paragraphs.push(quotedBy(depth, pieces.join('')));
    pieces = [];
  };
  for (const line of text.split(/\r?\n/)) {
    const marks = /^>*/.exec(line)![0].length;
    const content = line.slice(line[marks] === ' ' ? marks + 1 : marks);
    if (marks !== depth) end();
    depth = marks;
    // The signature mark ends in a space but does not continue (§4.3).
    const isFlowed = content.endsWith(' ') && content !== '-- ';
    if (content === '-- ') end();
    pieces.push(isFlowed && delSp ? content.slice(0, -1) : content);
    if (!isFlowed) end();
  }
  end();
  return paragraphs.join(lineEnd);
}

const quotedBy = (depth: number, text: string): string => {
  if (depth === 0) return text;
  return text === '' ? '>'.repeat(depth) : `${'>'.repeat(depth)} ${text}`;
};
