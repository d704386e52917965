// Light and dark: what the system says, unless a person says otherwise.
import { useState } from "preact/hooks";
import { IconButton } from "./parts";

const KEY = "tracefleet-theme";

function stored(): string {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return ""; // A file that is opened from disk may have no storage.
  }
}

/** Applies the theme that was chosen before. */
export function applyTheme(): void {
  const theme = stored();
  if (theme === "light" || theme === "dark") document.documentElement.dataset["theme"] = theme;
}

/** Switches between light and dark. */
export function ThemeButton() {
  const [, again] = useState(0);
  const flip = () => {
    const root = document.documentElement;
    const now = root.dataset["theme"] ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset["theme"] = now === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, root.dataset["theme"]);
    } catch {
      // It holds for this page only then.
    }
    document.dispatchEvent(new Event("themechange"));
    again((n) => n + 1);
  };
  return <IconButton icon="theme" label="Switch between light and dark" onClick={flip} />;
}
