"""Build: installed server distributions, where they come from, and how to execute them."""

from flushlab.build.build import Build
from flushlab.build.find import DEFAULT, find_build, list_builds, obtainable, survey
from flushlab.build.prefix import FoundBuild, Obtainable, origin
