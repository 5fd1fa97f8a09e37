/** Converts only ASCII letters to lower case, as the databases do regardless of the server's locale. */

export function asciiLower<T extends string | null>(text: T): T {
  return (text?.replace(/[A-Z]/g, (letter) => letter.toLowerCase()) ?? null) as T;
}
