/** Quotes a name that a user has chosen, so that it cannot be read as a part of the sentence around it. */
export function quoted(name: string): string {
  return `“${name}”`;
}
