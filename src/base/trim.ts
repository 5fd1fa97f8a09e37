/**
 * The text without the characters at both ends that are asked for, in linear time. A regular expression that ends in `+$` is
 * quadratic: it starts over at every space in the middle, so that a header field with 120,000 of them holds the event loop for
 * half a minute.
 */
export function trimmed(text: string, isOutside: (code: number) => boolean): string {
  let end = text.length;
  while (end > 0 && isOutside(text.charCodeAt(end - 1))) end -= 1;
  let start = 0;
  while (start < end && isOutside(text.charCodeAt(start))) start += 1;
  return text.slice(start, end);
}
