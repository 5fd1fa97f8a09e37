/**
 * Text that was sent as `format=flowed` (RFC 3676): paragraphs whose lines end in a space are joined again, also within quotes, and
 * the space that protects the start of a line is removed. Time is linear in the text.
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
    // The mark of a signature ends in a space and is no paragraph that goes on (§4.3).
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
