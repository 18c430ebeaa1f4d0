/** How well the texts of a page can be read: contrast as WCAG 2.2 defines it. */
import type { Page } from 'playwright-core';

export interface TextContrast {
  readonly text: string;
  readonly colour: string;
  readonly ground: string;
  /** 1 to 21. */
  readonly contrast: number;
}

/** Of every text that is shown, against the nearest ground that is painted. */
export async function contrastOf(page: Page): Promise<readonly TextContrast[]> {
  const texts = await page.evaluate<readonly Omit<TextContrast, 'contrast'>[]>(shownTexts);
  return texts.map(({ text, colour, ground }) => ({ text, colour, ground, contrast: contrast(colour, ground) }));
}

/** Run in the page: every text with its colour and its ground, `rgb(r, g, b)`. */
const shownTexts = `(() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement;
    const text = node.textContent.trim();
    if (text === '' || element.closest('script, style, title, desc, noscript, [hidden]') !== null) continue;
    if (element.getClientRects().length === 0) continue;
    const style = getComputedStyle(element);
    let behind = element;
    while (behind !== null && getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
    const ground = behind === null ? 'rgb(255, 255, 255)' : getComputedStyle(behind).backgroundColor;
    found.push({ text: text.slice(0, 40), colour: element instanceof SVGElement ? style.fill : style.color, ground });
  }
  return found;
})()`;

function contrast(one: string, other: string): number {
  const [light = 0, dark = 0] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return Math.round(((light + 0.05) / (dark + 0.05)) * 100) / 100;
}

/** Of `rgb(r, g, b)`. */
function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [...colour.matchAll(/[\d.]+/g)].map(([part]) => {
    const value = Number(part) / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
