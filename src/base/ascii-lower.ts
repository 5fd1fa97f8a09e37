/**
 * Lower case of ASCII letters alone: what the databases do to their texts, whatever the language of their server.
 */

export function asciiLower<T extends string | null>(text: T): T {
  return (text?.replace(/[A-Z]/g, (letter) => letter.toLowerCase()) ?? null) as T;
}
