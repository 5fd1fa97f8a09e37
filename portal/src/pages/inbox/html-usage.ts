/**
 * Reads which elements, declarations, selectors, and at-rules the HTML of an email has, as the browser understands them. Nothing is loaded
 * or run: the HTML becomes a document without a window.
 */
import type { Block, HtmlUsage, UsedElement } from './client-features.ts';

function blockOf(style: CSSStyleDeclaration): Block {
  const values = new Map<string, string>();
  for (const name of style) values.set(name, style.getPropertyValue(name));
  return { text: style.cssText, values };
}

interface Collected {
  blocks: Block[];
  selectors: string[];
  atRules: HtmlUsage['atRules'][number][];
}

const AT_RULES: Readonly<Record<string, Collected['atRules'][number]['kind']>> = {
  CSSImportRule: 'import',
  CSSMediaRule: 'media',
  CSSSupportsRule: 'supports',
  CSSFontFaceRule: 'font-face',
  CSSKeyframesRule: 'keyframes',
};

/** Rules can contain rules; a depth limit protects against malicious styles. */
const MOST_LEVELS = 20;

function collect(rules: CSSRuleList, into: Collected, level = 0): void {
  if (level > MOST_LEVELS) return;
  for (const rule of rules) {
    // The class of a rule is that of another window, so instanceof does not apply.
    const type = (rule as CSSRule & { [Symbol.toStringTag]: string })[Symbol.toStringTag];
    const kind = AT_RULES[type];
    if (kind !== undefined) into.atRules.push({ kind, condition: (rule as CSSMediaRule).conditionText ?? '' });
    if (type === 'CSSStyleRule') {
      const { selectorText, style, cssRules } = rule as CSSStyleRule;
      into.selectors.push(selectorText);
      into.blocks.push(blockOf(style));
      if (cssRules.length > 0) into.atRules.push({ kind: 'nesting', condition: '' });
    }
    if (kind !== 'keyframes' && 'cssRules' in rule) collect(rule.cssRules as CSSRuleList, into, level + 1);
  }
}

/**
 * Reads the HTML of an email. Pass the implementation of a document whose policy allows inline styles: its policy applies to the document
 * that it creates.
 */
export function usageOf(html: string, implementation: DOMImplementation): HtmlUsage {
  const mail = implementation.createHTMLDocument('');
  mail.documentElement.innerHTML = html;
  const found: Collected = { blocks: [], selectors: [], atRules: [] };
  const inline = new Map<string, Block>();
  const elements: UsedElement[] = [];
  for (const element of mail.querySelectorAll<HTMLElement>('*')) {
    const attributes = new Map([...element.attributes].map(({ name, value }) => [name, value]));
    elements.push({ name: element.localName, attributes });
    const sheet = element.localName === 'style' ? (element as HTMLStyleElement).sheet : null;
    if (sheet) collect(sheet.cssRules, found);
    const css = attributes.get('style');
    if (css === undefined) continue;
    const block = inline.get(css) ?? blockOf(element.style);
    inline.set(css, block);
    found.blocks.push(block);
  }
  return { elements, ...found };
}
