/** Converts only ASCII letters to lower case, as the databases do regardless of the server's locale. */

export function asciiLower(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}
