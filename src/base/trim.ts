/**
 * Removes the given characters at both ends, in linear time. A regular expression that ends in `+$` is quadratic: a header field with
 * 120,000 spaces in the middle would block the event loop for half a minute.
 */
export function trimmed(text: string, isOutside: (code: number) => boolean): string {
  let end = text.length;
  while (end > 0 && isOutside(text.charCodeAt(end - 1))) end -= 1;
  let start = 0;
  while (start < end && isOutside(text.charCodeAt(start))) start += 1;
  return text.slice(start, end);
}
